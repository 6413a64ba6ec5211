"""The files of Prometheus and Grafana, from this package to a folder."""

import json
from collections.abc import Iterator
from pathlib import Path

from dashboards import EXPORTED, FOLDER
from servemark.documents.live import GENERATOR, TRITON
from servemark.errors import OptionError
from servemark.telemetry.scrape_targets import TARGETS


def export(folder: Path, *, generator: str = GENERATOR, triton: str = TRITON, force: bool = False) -> list[Path]:
    """Write dashboards, rules, provisioning and compose files; the addresses ("host:port") are what is scraped.

    Raises OptionError, before anything is written, where a file of another content is there and not `force`.
    """
    contents = dict(_contents())
    for job, address in (("servemark", generator), ("triton", triton)):
        contents[f"{TARGETS}/{job}.json"] = (json.dumps([{"targets": [address]}]) + "\n").encode()
    written = {folder / name: content for name, content in contents.items()}
    changed = [path for path, content in written.items() if path.exists() and path.read_bytes() != content]
    if changed and not force:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise OptionError(
            f"{changed[0]}{more} is there with another content", fix="name another folder, or overwrite it with --force"
        )
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return list(written)


def dashboard_files(folder: Path) -> list[Path]:
    """The dashboards' JSON in an exported folder."""
    return sorted((folder / "grafana" / "json").glob("*.json"))


def _contents() -> Iterator[tuple[str, bytes]]:
    """Each file's name from the folder, and what it holds; Kubernetes's own are left out."""
    for name in EXPORTED:
        place = FOLDER / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and path.name != "kustomization.yaml":
                yield str(path.relative_to(FOLDER)), path.read_bytes()
