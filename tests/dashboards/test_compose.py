"""The compose file: nothing beyond loopback, nothing that changes by itself, the versions of the rest of the project.

No container is run. `docker compose config` reads it where Docker's compose plugin is installed.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import FOLDER
from servers.modes import IMAGE
from tests.support.manifests import BASE, containers, workloads

COMPOSE = FOLDER / "compose.yaml"
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
LISTENS = {
    "triton": {f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")},
    "prometheus": {"--web.listen-address=127.0.0.1:${PROMETHEUS_PORT:-9090}"},
    "grafana": {"GF_SERVER_HTTP_ADDR=127.0.0.1"},
}
"""Arguments and variables by which each service listens on loopback alone."""
each = pytest.mark.parametrize("name", SERVICES)


def test_images_are_those_of_kubernetes_of_serve_and_of_the_checked_schema() -> None:
    in_kubernetes = {container["image"] for workload in workloads(BASE).values() for container in containers(workload)}
    assert {SERVICES["triton"]["image"], SERVICES["prometheus"]["image"]} <= in_kubernetes
    assert SERVICES["triton"]["image"] == IMAGE
    schema = json.loads((Path(__file__).parent / "grafana" / "schema.json").read_text())
    assert SERVICES["grafana"]["image"] == f"grafana/grafana:{schema['grafana']}"


@each
def test_a_service_has_few_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    for volume in service["volumes"]:
        assert volume["type"] == "volume" or volume["read_only"]


@each
def test_a_service_listens_on_loopback_alone(name: str) -> None:
    service = SERVICES[name]
    assert service["network_mode"] == "host"  # so ports are what the programs say
    assert "ports" not in service
    said = {*service.get("command", []), *(f"{k}={v}" for k, v in service.get("environment", {}).items())}
    assert said >= LISTENS[name]


def test_grafana_has_no_account_and_its_visitors_look_only() -> None:
    settings = SERVICES["grafana"]["environment"]
    assert settings["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert settings["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert settings["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"


def test_grafana_finds_the_dashboards_and_prometheus() -> None:
    grafana, provisioning = SERVICES["grafana"], FOLDER / "grafana" / "provisioning"
    [provider] = yaml.safe_load((provisioning / "dashboards" / "servemark.yaml").read_text())["providers"]
    mounts = {volume["target"]: volume["source"] for volume in grafana["volumes"]}
    assert (COMPOSE.parent / mounts[provider["options"]["path"]]).resolve() == FOLDER / "grafana" / "json"
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/latency.json"
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://127.0.0.1:${PROMETHEUS_PORT}"
    assert "PROMETHEUS_PORT" in grafana["environment"]
    scraped = yaml.safe_load((FOLDER / "prometheus" / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scraped


def test_docker_compose_reads_it() -> None:
    engine = shutil.which("docker")
    if not engine or subprocess.run([engine, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no docker with its compose plugin on PATH")
    files = ["--file", str(COMPOSE), "--file", str(FOLDER / "compose.gpu.yaml")]
    done = subprocess.run([engine, "compose", *files, "config", "--quiet"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
