"""`servemark rerun`: the options that a result keeps make the same run again."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from servemark.documents.flags import request_of
from servemark.documents.load import ClosedLoop
from servemark.documents.request import RunRequest, changed
from servemark.figures.registry import value_of
from servemark.results import directory
from servemark.workload import get
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.locust_run import accounted, server_of, the_result
from tests.support.measured import evenly, load_result


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A result of a run."""
    flags = ["--url", "http://h:1", "--request-rate", "40", "--duration", "10", "--warmup", "1", "--slo", "p90:50"]
    directory.write(tmp_path, load_result(flags, evenly(40, 11, 0.02)))
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
        "server:",
        "  url: http://h:1",
        "load:",
        "  kind: constant-rate",
        "  rate: 40.0",
        "  distribution: poisson",
        "  gamma_cv: null",
        "  duration_s: 10.0",
        "  warmup: 1.0",
        "objectives:",
        "  slo: p90:50",
    ]


def test_a_run_is_made_again(servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]) -> None:
    """With what was asked for, changed by what follows the result."""
    flags = {"model": "ranking_tiny", "request_rate": "40", "engine_option": ["compile=true"], "slo": "p90:50"}
    result = load_result(("--request-rate", "40"), evenly(40, 15, 0.02))
    directory.write(tmp_path, {**result, "request": msgspec.to_builtins(request_of(flags))})
    code, _, err = servemark("rerun", str(tmp_path), "--concurrency", "2", "--seed=7")
    assert (code, err) == (BAD_INPUT, "servemark: not run\n")
    [request] = stopped
    assert (request.workload, request.load) == ("ranking_tiny", ClosedLoop(concurrency=2))
    assert (request.inputs.seed, request.objectives.slo) == (7, "p90:50")
    assert request.server.engine_options == ("compile=true",)


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
        ({"request": {**kept["request"], "odd": 1}}, "unknown field `odd`"),
        ({"request": {"load": {"kind": "constant-rate", "rate": 0}}}, "> 0.0 - at `$.load.rate`"),
        ({"request": {"live": {"metrics_grace_s": 5}}}, "--metrics-grace is for the port"),
        ({"kind": "comparison"}, "is of the kind comparison, not load"),
        ({"kind": "mlperf", "command": ["servemark", "mlperf", "x"]}, "; this was made by `servemark mlperf x`"),
        ({"request": 5}, "is damaged: Expected `object`, got `int` - at `$.request`"),
    ):
        change(saved, **{**kept, **changes})
        code, out, err = servemark("rerun", str(saved))
        assert (code, out) == (BAD_INPUT, "")
        assert words in err


def test_a_rerun_measures(servemark: Servemark, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with server_of(get("ranking_tiny")) as server:
        options = {"model": "ranking_tiny", "url": server.url, "request_rate": "50", "warmup": "0.1"}
        options |= {"request_distribution": "constant", "duration": "15"}
        result = load_result(("--request-rate", "40"), evenly(40, 15, 0.02))
        request = request_of(options)
        directory.write(tmp_path, {**result, "request": msgspec.to_builtins(request)})
        servemark("rerun", str(tmp_path), "--trust", "--duration", "0.5", "--out", str(out), "--json")
        again = the_result(out)
        assert len(server.requests()) == accounted(again)
    assert value_of(again, "requests.answered") == 25
    load = msgspec.structs.replace(request.load, duration_s=0.5)
    expected = changed(request, load=load, out=str(out), imports_dir=again["request"]["imports_dir"])
    assert msgspec.convert(again["request"], RunRequest) == expected
