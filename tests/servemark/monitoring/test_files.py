"""Files that `servemark dashboards export` writes for Prometheus and Grafana, wherever the package is."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from dashboards import FOLDER
from dashboards.build import DASHBOARDS
from servemark.monitoring.stack import dashboard_files, export
from servemark.paths import CHECKOUT
from tests.support.command_line import BAD_INPUT, Servemark

SETTINGS = "prometheus/prometheus.yml"


def test_all_files_are_written_with_what_is_to_be_scraped(tmp_path: Path) -> None:
    written = export(tmp_path, generator="10.0.0.1:1", triton="10.0.0.2:2")
    assert {path.stem for path in dashboard_files(tmp_path)} == set(DASHBOARDS)
    assert {path.suffix for path in written} == {".json", ".yaml", ".yml"}
    assert json.loads((tmp_path / "prometheus" / "targets" / "servemark.json").read_text()) == [
        {"targets": ["10.0.0.1:1"]}
    ]
    assert json.loads((tmp_path / "prometheus" / "targets" / "triton.json").read_text()) == [
        {"targets": ["10.0.0.2:2"]}
    ]


def test_files_refer_to_what_is_written(tmp_path: Path) -> None:
    export(tmp_path)
    settings = yaml.safe_load((tmp_path / SETTINGS).read_text())
    named = settings["rule_files"] + [
        file for job in settings["scrape_configs"] for found in job["file_sd_configs"] for file in found["files"]
    ]
    assert all(list((tmp_path / "prometheus").glob(name)) for name in named)
    services = yaml.safe_load((tmp_path / "compose.yaml").read_text())["services"]
    mounts = [v for service in services.values() for v in service["volumes"] if v["source"].startswith("./")]
    assert mounts
    assert all((tmp_path / mount["source"]).is_dir() for mount in mounts)


def test_the_defaults_are_those_of_the_files(tmp_path: Path) -> None:
    for path in export(tmp_path):
        found, ours = path.read_text(), (FOLDER / path.relative_to(tmp_path)).read_text()
        assert json.loads(found) == json.loads(ours) if path.suffix == ".json" else found == ours


def test_files_of_somebody_are_kept(tmp_path: Path, servemark: Servemark) -> None:
    assert servemark("dashboards", "export", str(tmp_path)).code == 0
    assert servemark("dashboards", "export", str(tmp_path)).code == 0, "the same again is no conflict"
    (tmp_path / SETTINGS).write_text("mine")
    done = servemark("dashboards", "export", str(tmp_path))
    assert (done.code, "--force" in done.err, SETTINGS in done.err) == (BAD_INPUT, True, True)
    assert (tmp_path / SETTINGS).read_text() == "mine"
    done = servemark("dashboards", "export", str(tmp_path), "--force", "--json")
    assert set(json.loads(done.out)["files"]) >= {SETTINGS, "compose.yaml", "grafana/json/latency.json"}
    assert (tmp_path / SETTINGS).read_text() != "mine"


@pytest.mark.slow
def test_the_wheel_has_the_files(tmp_path: Path) -> None:
    """Built from the checkout: an installed package exports the same."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "-q"]
    subprocess.run([*command, str(CHECKOUT)], check=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    there = tmp_path / "there"
    program = f"from pathlib import Path; from servemark.monitoring.stack import export; export(Path({str(there)!r}))"
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        cwd=tmp_path / "installed",
        timeout=60,
        env={"PYTHONPATH": str(tmp_path / "installed")},
    )
    names = {path.relative_to(tmp_path / "here") for path in export(tmp_path / "here")}
    assert {path.relative_to(there) for path in there.rglob("*") if path.is_file()} == names
