"""A server of ours is a target of Prometheus while it lives, and a killed process leaves none for long."""

import json
import subprocess
import sys
from pathlib import Path

import psutil

from servemark.telemetry.scrape_targets import TARGETS, ScrapeTarget


def targets(monitoring: Path) -> list[str]:
    return [json.loads(file.read_text())[0]["targets"][0] for file in sorted((monitoring / TARGETS).iterdir())]


def test_a_target_lasts_until_it_is_removed(tmp_path: Path) -> None:
    (tmp_path / TARGETS).mkdir(parents=True)
    first, second = (ScrapeTarget("triton", f"127.0.0.1:{port}", tmp_path) for port in (1, 2))
    assert targets(tmp_path) == ["127.0.0.1:1", "127.0.0.1:2"]
    first.remove()
    assert targets(tmp_path) == ["127.0.0.1:2"]
    second.remove()
    assert targets(tmp_path) == []


def test_the_target_of_a_process_that_was_killed_goes_with_the_next(tmp_path: Path) -> None:
    folder = tmp_path / TARGETS
    folder.mkdir(parents=True)
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    pid = int(ended.stdout)
    assert not psutil.pid_exists(pid)
    (folder / f"triton-{pid}-7.json").write_text('[{"targets": ["127.0.0.1:7"]}]')
    (folder / "triton.json").write_text('[{"targets": ["127.0.0.1:8002"]}]')
    ScrapeTarget("triton", "127.0.0.1:1", tmp_path)
    assert set(targets(tmp_path)) == {"127.0.0.1:8002", "127.0.0.1:1"}


def test_without_a_prometheus_nothing_is_written(tmp_path: Path) -> None:
    ScrapeTarget("triton", "127.0.0.1:1", tmp_path).remove()
    assert list(tmp_path.iterdir()) == []
