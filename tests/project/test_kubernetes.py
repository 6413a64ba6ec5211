"""The Kubernetes manifests: schemas, and that everything that refers to something refers to what is there.

No cluster is asked. `kubectl kustomize`, where it is installed, builds the overlays, which are then checked alike.
"""

import functools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from dashboards import FOLDER as DASHBOARDS
from servemark.paths import CHECKOUT
from tests.support.manifests import (
    BASE,
    FOLDER,
    OVERLAYS,
    arguments,
    behind,
    containers,
    documents,
    kustomization,
    labels,
    mount_of,
    objects,
    of_kind,
    pod,
    port_names,
    workloads,
)

CONTAINERFILE = CHECKOUT / "Containerfile"
PACKAGES = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
VERSION = "1.31"
"""Of Kubernetes, whose schemas the manifests keep."""
schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)
"""It would read a megabyte for each object."""
every_folder = pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)


@every_folder
def test_schemas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubernetes_validate.utils.schema_contents", schema_contents)
    for found in objects(folder):
        kubernetes_validate.validate(found, VERSION, strict=True)
    kinds = {found["kind"] for found in objects(folder)}
    run = {"Deployment", "Job", "Service", "ConfigMap", "PersistentVolumeClaim"}
    assert kinds == {"Namespace", "NetworkPolicy"} | run


def test_the_reader_of_results_mounts_the_claim_that_the_master_writes() -> None:
    [reader] = documents(FOLDER / "results_reader.yaml")
    kubernetes_validate.validate(reader, VERSION, strict=True)
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in reader["spec"]["volumes"]]
    assert claims == list(of_kind(BASE, "PersistentVolumeClaim"))
    assert reader["metadata"]["namespace"] == kustomization(BASE)["namespace"]


def test_the_schemas_would_notice() -> None:
    deployment = json.loads(json.dumps(of_kind(BASE, "Deployment")["triton"]))
    deployment["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, VERSION, strict=True)


@every_folder
def test_kustomizations_name_files_and_objects_that_exist(folder: Path) -> None:
    settings = kustomization(folder)
    named = {"kustomization.yaml"}
    for name in settings["resources"]:
        assert (folder / name).exists()
        named.add(name)
    for made in settings.get("configMapGenerator", []):
        named.update(made["files"])
        if made.get("behavior") == "replace":
            assert made["name"] in of_kind(BASE, "ConfigMap")
            assert made["namespace"] == kustomization(BASE)["namespace"]
    for patch in settings.get("patches", []):
        kinds, name = patch["target"]["kind"], patch["target"]["name"]
        hit = [w["metadata"]["name"] for w in workloads(BASE).values() if re.fullmatch(kinds, w["kind"])]
        assert [target for target in hit if re.fullmatch(name, target)], patch["target"]
        if "path" in patch:
            named.add(patch["path"])
            [change] = documents(folder / patch["path"])
            assert (change["kind"], change["metadata"]["name"]) == (kinds, name)
            changed = {c["name"] for c in pod(change).get("containers", [])} if "template" in change["spec"] else set()
            assert changed <= {c["name"] for c in containers(workloads(BASE)[name])}
    used = {image["name"] for image in settings.get("images", [])}
    assert used <= {c["image"] for w in workloads(BASE).values() for c in containers(w)}
    # nothing lies there that nobody uses
    assert {path.name for path in folder.iterdir()} <= named


@every_folder
def test_services_select_pods_and_their_ports(folder: Path) -> None:
    for service in of_kind(folder, "Service").values():
        ports = port_names(behind(folder, service))
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    for workload in of_kind(folder, "Deployment").values():
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels(workload).items()


@every_folder
def test_pods_refer_to_what_is_there_and_run_unprivileged(folder: Path) -> None:
    config_maps, claims = of_kind(folder, "ConfigMap"), of_kind(folder, "PersistentVolumeClaim")
    for name, workload in workloads(folder).items():
        volumes = {volume["name"]: volume for volume in pod(workload)["volumes"]}
        for volume in volumes.values():
            assert "configMap" not in volume or volume["configMap"]["name"] in {
                found["metadata"]["name"] for found in config_maps.values()
            }
            assert "persistentVolumeClaim" not in volume or volume["persistentVolumeClaim"]["claimName"] in claims
        assert all(volume["emptyDir"]["sizeLimit"] for volume in volumes.values() if "emptyDir" in volume)
        assert pod(workload)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        mounted = {mount["name"] for c in containers(workload) for mount in c.get("volumeMounts", [])}
        assert mounted == set(volumes)
        assert pod(workload)["securityContext"]["runAsNonRoot"]
        for container in containers(workload):
            context, resources = container["securityContext"], container["resources"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert resources["requests"].keys() == resources["limits"].keys()
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert kind not in container or container[kind]["httpGet"]["port"] in port_names(workload), name


@every_folder
def test_the_namespace_takes_unprivileged_pods_alone_and_a_run_ends(folder: Path) -> None:
    [namespace] = of_kind(folder, "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    run = of_kind(folder, "Job")["load-master"]["spec"]
    waits = 1200 + 600  # for Triton (the init container's timeout), for the workers (expect-workers-max-wait)
    assert waits < run["activeDeadlineSeconds"] < run["ttlSecondsAfterFinished"]


def admitted(folder: Path, workload: str) -> set[tuple[str, str]]:
    """Return the peers that reach a workload's pods by the policies, with their ports."""
    found = set()
    for policy in of_kind(folder, "NetworkPolicy").values():
        chosen = policy["spec"]["podSelector"].get("matchLabels", {}).items()
        if "Ingress" in policy["spec"]["policyTypes"] and chosen <= labels(workloads(folder)[workload]).items():
            for rule in policy["spec"].get("ingress", []):
                for peer in rule["from"]:
                    selector = peer["podSelector"]
                    names = [selector.get("matchLabels", {}).get("app.kubernetes.io/name")]
                    names = next((e["values"] for e in selector.get("matchExpressions", [])), names)
                    found |= {(name, port["port"]) for name in names for port in rule["ports"]}
    return found


@every_folder
def test_pods_are_reached_by_whom_they_serve_alone(folder: Path) -> None:
    closed = of_kind(folder, "NetworkPolicy")["closed"]["spec"]
    assert (closed["podSelector"], "ingress" in closed) == ({}, False)
    assert set(closed["policyTypes"]) == {"Ingress", "Egress"}
    ports = {"http", "grpc", "metrics"}
    clients = {(name, port) for name in ("load-master", "load-worker") for port in ports}
    assert admitted(folder, "triton") == clients | {("prometheus", "metrics")}
    assert admitted(folder, "load-master") == {("load-worker", "locust"), ("prometheus", "metrics")}
    assert admitted(folder, "load-worker") == admitted(folder, "prometheus") == set()
    for name, workload in workloads(folder).items():
        assert {port for _, port in admitted(folder, name)} <= port_names(workload).keys()


@every_folder
def test_triton(folder: Path) -> None:
    triton = of_kind(folder, "Deployment")["triton"]
    container = pod(triton)["containers"][0]
    assert container["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"
    notes = triton["spec"]["template"]["metadata"]["annotations"]
    assert int(notes["prometheus.io/port"]) == port_names(triton)["metrics"]
    volumes = {volume["name"]: volume for volume in pod(triton)["volumes"]}
    [shm] = [mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/dev/shm"]
    assert volumes[shm]["emptyDir"]["medium"] == "Memory"
    gpus = container["resources"]["limits"].get("nvidia.com/gpu")
    assert gpus == ("1" if folder.name == "gpu" else None)


def test_on_a_gpu_the_copied_entry_is_placed_there(tmp_path: Path) -> None:
    """The init container's own command, on a copy of an entry that says KIND_CPU."""
    [patch] = documents(FOLDER / "overlays" / "gpu" / "triton_gpu.yaml")
    models = next(container for container in containers(patch) if container["name"] == "models")
    entry = tmp_path / "model_repo" / "ranking_onnxruntime"
    entry.mkdir(parents=True)
    (tmp_path / "models").mkdir()
    (entry / "config.pbtxt").write_text("instance_group [\n  { count: 1 kind: KIND_CPU }\n]\n")
    shell, option, script = models["command"]
    moved = script.replace("/model_repo/", f"{tmp_path}/model_repo/").replace("/models/", f"{tmp_path}/models/")
    subprocess.run([shell, option, moved], check=True, timeout=30)
    written = (tmp_path / "models" / "ranking_onnxruntime" / "config.pbtxt").read_text()
    assert "count: 1 kind: KIND_GPU" in written


@every_folder
def test_prometheus_reads_every_pod_of_triton_and_the_master_and_has_the_rules(folder: Path) -> None:
    prometheus, config_maps = of_kind(folder, "Deployment")["prometheus"], of_kind(folder, "ConfigMap")
    assert f"--config.file={mount_of(prometheus, 'config')}/prometheus.yml" in arguments(prometheus)
    config = yaml.safe_load(config_maps["prometheus"]["data"]["prometheus.yml"])
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    [found] = jobs["triton"]["dns_sd_configs"]
    service = of_kind(folder, "Service")[found["names"][0]]
    assert (len(found["names"]), service["spec"]["clusterIP"]) == (1, "None")
    assert behind(folder, service)["metadata"]["name"] == "triton"
    assert found["port"] == service["spec"]["ports"][0]["port"]
    [[name, port]] = [target.split(":") for each in jobs["servemark"]["static_configs"] for target in each["targets"]]
    assert behind(folder, of_kind(folder, "Service")[name])["metadata"]["name"] == "load-master"
    assert int(port) == port_names(workloads(folder)["load-master"])["metrics"]
    [text] = config_maps["load"]["data"].values()
    assert f"metrics-port = {port}\n" in text
    assert config["rule_files"] == [f"{mount_of(prometheus, 'rules')}/*.yml"]
    rules = config_maps["prometheus-rules"]["data"]["slo.yml"]
    assert (DASHBOARDS / "prometheus" / "rules" / "slo.yml").read_text() == rules


@every_folder
def test_the_dashboards_are_config_maps_that_grafana_s_sidecar_finds(folder: Path) -> None:
    found = [o for o in of_kind(folder, "ConfigMap").values() if "grafana_dashboard" in o["metadata"]["labels"]]
    boards = {name: text for config_map in found for name, text in config_map["data"].items()}
    assert boards == {path.name: path.read_text() for path in (DASHBOARDS / "grafana" / "json").iterdir()}
    # `kubectl apply` keeps an object in an annotation, which may have 256 KiB.
    assert all(len(json.dumps(config_map)) < 200_000 for config_map in found)


PARSE = """
import contextlib, io, json, sys
import loadgen.__main__, loadgen.ranking
from locust.argument_parser import get_parser
from loadgen.load.load_config import LoadConfig
from servemark.documents.flags import from_locust
found = {}
for name, arguments in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            options = get_parser().parse_args(arguments)
        except SystemExit:
            found[name] = said.getvalue()
            continue
    found[name] = vars(options)
    if options.master:
        load = LoadConfig.of(from_locust(options))
        found[name] |= {"model": load.model, "url": load.url, "open_loop": load.open_loop}
print(json.dumps(found, default=str))
"""
CONFIGURATIONS = sorted(FOLDER.rglob("locust.conf"))


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Command lines by Locust's parser with our flags: what it reads, or why it refuses.

    All in one other process, because importing Locust patches threads and takes seconds.
    """
    lines = {str(file): ["--config", str(file), "--master", "--headless"] for file in CONFIGURATIONS}
    for folder in (BASE, *OVERLAYS):
        master, worker = workloads(folder)["load-master"], workloads(folder)["load-worker"]
        [(file, text)] = of_kind(folder, "ConfigMap")["load"]["data"].items()
        written, config = tmp_path_factory.mktemp(folder.name) / file, f"{mount_of(master, 'config')}/{file}"
        written.write_text(text)
        assert config in arguments(master)
        lines[f"{folder.name} load"] = [str(written) if each == config else each for each in arguments(master)]
        lines[f"{folder.name} part"] = arguments(worker)
    wrong = tmp_path_factory.mktemp("wrong") / "locust.conf"
    wrong.write_text((BASE / "locust.conf").read_text() + "request-rates = 5\n")
    lines["wrong"] = ["--config", str(wrong), "--headless"]
    command = [sys.executable, "-c", PARSE, json.dumps(lines)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def triton_is_ready(folder: Path) -> str:
    """The path that says so."""
    [container] = pod(of_kind(folder, "Deployment")["triton"])["containers"]
    return str(container["readinessProbe"]["httpGet"]["path"])


@every_folder
def test_the_load_is_what_the_parser_takes_and_the_others_offer(folder: Path, parsed: dict[str, Any]) -> None:
    master, worker = workloads(folder)["load-master"], workloads(folder)["load-worker"]
    load, part = parsed[f"{folder.name} load"], parsed[f"{folder.name} part"]
    assert load["master"]
    assert load["headless"]
    assert load["expect_workers"] == worker["spec"]["replicas"]
    assert load["master_bind_host"] == "*"  # it listens on loopback otherwise
    assert part["worker"]
    service = of_kind(folder, "Service")[part["master_host"]]
    assert behind(folder, service) is master
    assert part["master_port"] == service["spec"]["ports"][0]["port"]
    assert load["model_repository"] == mount_of(master, "models")
    assert part["model_repository"] == mount_of(worker, "models")
    assert load["out"] == mount_of(master, "results")

    host, _, port = load["url"].removeprefix("http://").partition(":")
    assert behind(folder, of_kind(folder, "Service")[host])["metadata"]["name"] == "triton"
    assert int(port) in {port["port"] for port in of_kind(folder, "Service")[host]["spec"]["ports"]}
    # Triton serves whatever the image of models holds.
    assert "--model-control-mode=none" in arguments(of_kind(folder, "Deployment")["triton"])
    assert f"\nARG ENTRY={load['model']}\n" in CONTAINERFILE.read_text()
    assert load["open_loop"]
    # The master begins when the server is ready, not when the workers are there.
    [wait] = [container["command"] for container in pod(master)["initContainers"] if container["name"] == "triton"]
    assert wait[0] == "timeout"
    assert f" {load['url']}{triton_is_ready(folder)};" in wait[-1]


def test_every_load_is_read_and_a_flag_that_is_not_ours_is_noticed(parsed: dict[str, Any]) -> None:
    assert {parsed[str(file)]["model"] for file in CONFIGURATIONS} == {"ranking_onnxruntime"}
    assert "request-rates" in parsed["wrong"]


def test_the_images_are_built_from_what_is_there() -> None:
    text = CONTAINERFILE.read_text()
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE))
    images = {image["name"] for image in kustomization(BASE)["images"]}
    assert images < {f"servemark-{stage}" for stage in stages}
    assert set(re.findall(r"--target (\w+) -t (\S+):", text)) == {(s, f"servemark-{s}") for s in stages}
    kept = {line[1:] for line in Path(f"{CONTAINERFILE}.dockerignore").read_text().splitlines() if line[0] == "!"}
    copied = {name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()}
    assert {name.partition("/")[0] for name in copied} == kept
    assert all((CHECKOUT / name).exists() for name in kept)
    # Each stage that installs servemark has all of its packages.
    packages = {name.rstrip("*").partition(".")[0] for name in PACKAGES}
    installed = [stage for stage in text.split("\nFROM ") if "servemark servemark" in stage]
    assert len(installed) == 2
    for stage in installed:
        assert packages <= set(re.findall(r"^COPY (\w+) \1$", stage, re.MULTILINE))
