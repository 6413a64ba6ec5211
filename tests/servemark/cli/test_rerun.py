"""`servemark rerun`: the options that a result keeps make the same run again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from servemark.cli import run as command
from servemark.errors import OptionError
from servemark.results import directory
from servemark.workload import get
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.load_config import config
from tests.support.locust_run import accounted, server_of, the_result
from tests.support.measured import evenly, load_result


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A result of a run."""
    flags = ("-u".replace("-u", "--url"), "http://h:1", "--request-rate", "40", "--duration", "10", "--warmup", "1")
    directory.write(tmp_path, load_result((*flags, "--slo", "p90:50"), evenly(40, 11, 0.02)))
    return tmp_path


def change(folder: Path, **changes: Any) -> None:
    """Give a saved result other values."""
    document = directory.read(folder)
    directory.write(folder, {**document, **changes})


def test_the_options_of_a_result_are_a_file(saved: Path, servemark: Servemark) -> None:
    code, out, _ = servemark("rerun", str(saved), "--print")
    assert code == 0
    assert out.splitlines()[1:] == [
        "workload: ranking_tiny",
        "url: http://h:1",
        "request-rate: 40",
        "duration: 10",
        "warmup: 1",
        "slo: p90:50",
    ]


def test_the_options_of_a_command_are_kept_in_its_runs() -> None:
    run = replace(config("ranking_tiny", "--seed", "3", "--protocol", "grpc", "--out", "elsewhere"))
    assert run.run_options()["url"] == run.address
    own = replace(run, command_options={"url": "", "protocol": "grpc", "option": ["compile=true"], "device": ""})
    assert own.run_options() == {
        "workload": "ranking_tiny",
        "concurrency": "1",
        "seed": "3",
        "protocol": "grpc",
        "option": ["compile=true"],
    }
    assert type(own).parse(own.arguments()) == own


def test_a_run_is_made_again(servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the command was given, changed by what follows the result."""
    made: list[tuple[Any, dict[str, str]]] = []

    def stop(load: Any, **more: str) -> None:
        made.append((load, more))
        raise OptionError("not run")

    result = load_result(("--request-rate", "40"), evenly(40, 15, 0.02))
    options = {"workload": "ranking_tiny", "request_rate": "40", "option": ["compile=true"], "slo": "p90:50"}
    directory.write(tmp_path, {**result, "config": {**result["config"], "options": options}})
    monkeypatch.setattr(command, "resolve", stop)
    code, _, err = servemark("rerun", str(tmp_path), "--concurrency", "2", "--seed=7")
    assert (code, err) == (BAD_INPUT, "servemark: not run\n")
    [(load, more)] = made
    assert more == {"model": "ranking_tiny"}
    assert (load.num_users, load.request_rate, load.seed, load.slo) == ("2", "", "7", "p90:50")


def test_what_differs_is_said(saved: Path, servemark: Servemark) -> None:
    document = directory.read(saved)
    packages = {**document["environment"]["packages"], "numpy": "0.9"}
    change(saved, environment={**document["environment"], "packages": packages})
    _, _, err = servemark("rerun", str(saved), "--trust", "--duration", "none")
    assert f"differs from {saved}: packages.numpy was 0.9, is " in err
    assert err.count("differs from") == 1


def test_what_cannot_be_made_again_is_refused(saved: Path, servemark: Servemark) -> None:
    kept = directory.read(saved)
    for changes, words in (
        (
            {"config": {**kept["config"], "options": {"workload": "x", "odd": "1"}}},
            "options that this version lacks: odd",
        ),
        ({"config": {k: v for k, v in kept["config"].items() if k != "options"}}, "does not keep its options"),
        ({"kind": "comparison"}, "is of the kind comparison, no load run"),
        ({"kind": "mlperf", "command": ["servemark", "mlperf", "x"]}, "; this was made by `servemark mlperf x`"),
        ({"config": {"options": 5}}, "cannot be read"),
    ):
        change(saved, **{**kept, **changes})
        code, out, err = servemark("rerun", str(saved))
        assert (code, out) == (BAD_INPUT, "")
        assert words in err


def test_a_rerun_measures(servemark: Servemark, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with server_of(get("ranking_tiny")) as server:
        options = {"workload": "ranking_tiny", "url": server.url, "request_rate": "50", "warmup": "0.1"}
        options |= {"request_distribution": "constant", "duration": "15"}
        result = load_result(("--request-rate", "40"), evenly(40, 15, 0.02))
        directory.write(tmp_path, {**result, "config": {**result["config"], "options": options}})
        servemark("rerun", str(tmp_path), "--trust", "--duration", "0.5", "--out", str(out), "--json")
        again = the_result(out)
        assert len(server.requests()) == accounted(again)
    assert again["metrics"]["latency_ms"]["count"] == 25
    assert again["config"]["options"] == {**options, "duration": "0.5"}
