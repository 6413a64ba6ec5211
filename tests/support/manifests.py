"""Reads the Kubernetes manifests: the base as it is written, an overlay as kustomize builds it."""

import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from servemark.paths import CHECKOUT

FOLDER = CHECKOUT / "dashboards" / "kubernetes"
BASE, OVERLAYS = FOLDER / "base", sorted(path for path in (FOLDER / "overlays").iterdir())
GENERATED = "-[0-9a-z]{10}$"
"""Suffix that kustomize adds to the names of generated ConfigMaps."""
Object = dict[str, Any]
BUILDER = [shutil.which("kustomize"), "build"] if shutil.which("kustomize") else [shutil.which("kubectl"), "kustomize"]


def documents(file: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def kustomization(folder: Path) -> Object:
    [found] = documents(folder / "kustomization.yaml")
    return found


def sources(folder: Path) -> list[Object]:
    """Return the objects of a folder without patches, with its generated ConfigMaps and the folders that it names."""
    settings, found = kustomization(folder), []
    for path in (folder / name for name in settings.get("resources", [])):
        found += sources(path) if path.is_dir() else documents(path)
    labels = settings.get("generatorOptions", {}).get("labels", {})
    for made in settings["configMapGenerator"]:
        data = {Path(name).name: (folder / name).read_text() for name in made["files"]}
        metadata = {"name": made["name"], "labels": labels}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return found


@functools.cache
def objects(folder: Path) -> list[Object]:
    """The objects of the base as they are written, of an overlay as kustomize builds them."""
    if folder == BASE:
        return sources(BASE)
    if not BUILDER[0]:
        pytest.skip("neither kustomize nor kubectl on PATH: overlays cannot be built")
    done = subprocess.run([*map(str, BUILDER), str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(folder: Path, kind: str) -> dict[str, Object]:
    """Objects by name, generated names without their digest."""
    return {re.sub(GENERATED, "", o["metadata"]["name"]): o for o in objects(folder) if o["kind"] == kind}


def workloads(folder: Path) -> dict[str, Object]:
    return of_kind(folder, "Deployment") | of_kind(folder, "Job")


def pod(workload: Object) -> Object:
    return dict(workload["spec"]["template"]["spec"])


def labels(workload: Object) -> dict[str, str]:
    return dict(workload["spec"]["template"]["metadata"]["labels"])


def containers(workload: Object) -> Iterator[Object]:
    yield from pod(workload).get("initContainers", [])
    yield from pod(workload)["containers"]


def port_names(workload: Object) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for c in containers(workload) for port in c.get("ports", [])}


def behind(folder: Path, service: Object) -> Object:
    """The one workload whose pods a Service selects."""
    selector = service["spec"]["selector"].items()
    [found] = [w for w in workloads(folder).values() if selector <= labels(w).items()]
    return found


def arguments(workload: Object) -> list[str]:
    return list(pod(workload)["containers"][0]["args"])


def mount_of(workload: Object, volume: str) -> str:
    """Return the path at which the main container mounts a volume."""
    mounts = pod(workload)["containers"][0]["volumeMounts"]
    return str(next(mount["mountPath"] for mount in mounts if mount["name"] == volume))
