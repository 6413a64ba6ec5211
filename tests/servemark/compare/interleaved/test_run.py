"""`servemark compare` against real servers: its rounds, its files, and what is left when it is interrupted."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from loadgen.load.load_config import LoadConfig
from loadgen.measurement.probe import probe as first_look
from loadgen.targets.open import open_target
from servemark.compare.interleaved import timetable
from servemark.figures.registry import count_of, value_of
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support import tiny_product
from tests.support.command_line import Servemark
from tests.support.documents import validated
from tests.support.exporting import Exports
from tests.support.locust_run import server_of, started, until
from tests.support.rounds import Row

TINY = "ranking_tiny"


@pytest.fixture
def short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each engine answers one request of this process before the rounds; one test lets warm-ups end by themselves."""

    def answer_once(config: LoadConfig, *_: object) -> tuple[int, bool, timetable.EngineWarmUp]:
        target = open_target(config)
        target.prepare()
        first_look(target, target.payloads(None), 1, least_s=0, timeout_s=60)
        return 100, True, timetable.EngineWarmUp(50.0, 1.0)

    monkeypatch.setattr(timetable, "_answer_once", answer_once)


def check_rounds(found: Row, folder: Path, turns: list[str]) -> None:
    """The first directories tell the order, and each holds a whole result with its round's seed."""
    directories = sorted(path.name for path in folder.iterdir() if path.is_dir())[: len(turns)]
    assert directories == [f"{number:02}-{label}" for number, label in enumerate(turns, start=1)]
    assert [each["directory"] for each in found["turns"][: len(turns)]] == directories
    for each in found["turns"][: len(turns)]:
        result = json.loads((folder / each["directory"] / "result.json").read_text())
        assert result["partial"] is False
        assert result["request"]["engine"] == each["label"].partition("#")[0]
        assert result["seed"] == each["seed"] == found["seed"] + each["round"] - 1
        assert value_of(result, "errors.count") == 0


@pytest.mark.timeout(600)  # two exports, a server and two runs, on a machine that may be doing other things
@pytest.mark.usefixtures("short_warm_up")
def test_two_engines_on_the_embedded_triton(servemark: Servemark, tmp_path: Path, exported: Exports) -> None:
    for engine in ("onnxruntime", "openvino"):
        exported(TINY, engine)
    flags = ["--rounds", "1", "--duration", "0.6", "--warmup", "0.1", "--seed", "5", "--json"]
    places = ["--model-repository", str(exported.repository), "--out", str(tmp_path / "out")]
    # so short a run is never steady, which is said and not hidden
    code, out, _ = servemark("compare", TINY, "--engines", "onnxruntime,openvino", *flags, *places)
    assert code == 2
    found = json.loads(out)
    [folder] = (tmp_path / "out").iterdir()
    assert validated(json.loads((folder / "comparison.json").read_text())) == found
    check_rounds(found, folder, ["onnxruntime", "openvino"])
    assert [row["label"] for row in found["rows"]] == ["onnxruntime", "openvino"]
    assert (found["partial"], found["rounds_done"], found["kind"]) == (False, 1, "comparison")
    for row in found["rows"]:
        runs = [json.loads((folder / t["directory"] / "result.json").read_text()) for t in found["turns"]]
        own = [count_of(run, "requests.answered") for run in runs if run["engine"] == row["engine"]]
        assert row["latency_ms"]["count"] == sum(own)
        assert (row["device"], row["precision"], row["rounds"]) == ("cpu", "fp32", 1)
        assert row["output_agreement"]["checked"] > 0
    assert "side by side" in (folder / "comparison.md").read_text()
    assert "Ratios" in (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def ranking() -> Any:
    with server_of(get(TINY), delay_s=0.01) as server:
        yield server


@pytest.mark.timeout(600)  # two runs, on a machine that may be doing other things
@pytest.mark.usefixtures("short_warm_up")
def test_two_servers_in_turns_and_a_gate(servemark: Servemark, tmp_path: Path, ranking: GoldenServer) -> None:
    # Two servers that are alike, of an engine each: what differs is chance, which one short round cannot exclude.
    flags = ["--rounds", "1", "--duration", "0.5", "--warmup", "0", "--out", str(tmp_path)]
    flags += ["--engines", "onnxruntime,pytorch", "--fail-on", "p99,errors"]
    with server_of(get(TINY), engine="pytorch", delay_s=0.01) as other:
        code, out, _ = servemark("compare", TINY, "--urls", f"main={ranking.url},pr={other.url}", *flags)
        assert other.requests()  # under the model's name of its engine
    [folder] = tmp_path.iterdir()
    found = validated(json.loads((folder / "comparison.json").read_text()))
    assert [turn["label"] for turn in found["turns"]] == ["main", "pr"]
    assert "against main" in out
    gate = found["gate"]
    assert (gate["a"], gate["b"], gate["judged"]) == ("main", "pr", ["p99", "errors"])
    assert (code, gate["outcome"]) == (2, "undecided")
    assert gate["subjects"][0]["runs"] == [1, 1]
    assert (folder / "comparison.md").read_text().startswith("### undecided: ")


def test_an_engine_twice_on_a_given_server_until_it_is_interrupted(tmp_path: Path, ranking: GoldenServer) -> None:
    ranking.reset()
    program = "from servemark.__main__ import main; from servemark.compare.interleaved import timetable"
    flags = ["--rounds", "50", "--duration", "0.3", "--warmup", "0", "-u", ranking.url, "--out", str(tmp_path)]
    command = [sys.executable, "-c", f"{program}; timetable.WARM_S = 0.2; main()", "compare", TINY]
    with started([*command, "--engines", "onnxruntime,onnxruntime", *flags], tmp_path / "log") as process:
        until(lambda: list(tmp_path.glob("*/04-*")), "the second round")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    found = validated(json.loads((folder / "comparison.json").read_text()))
    check_rounds(found, folder, ["onnxruntime", "onnxruntime-2", "onnxruntime-2"])
    assert not (folder / "warm-up").exists()
    assert (found["partial"], found["partial_reason"]) == (True, "interrupted")
    assert found["rounds_done"] >= 1
    first, second = found["rows"]
    assert (first["rounds"] >= 1, second["rounds"] >= 2) == (True, True)
    # what was sent besides the rounds is the two warm-ups
    assert len(ranking.requests()) > first["latency_ms"]["count"] + second["latency_ms"]["count"]
    assert (folder / "report.html").exists()
    log = (tmp_path / "log").read_text()
    assert "[2/100] round 1, onnxruntime#2: p50 " in log
    assert "Traceback" not in log


@pytest.mark.timeout(600)  # four starts of a server and two runs
@pytest.mark.usefixtures("short_warm_up")
def test_two_server_products_in_turns(
    monkeypatch: pytest.MonkeyPatch, servemark: Servemark, tmp_path: Path, exported: Exports
) -> None:
    tiny_product.install(monkeypatch, tmp_path)
    flags = ["--rounds", "1", "--duration", "0.5", "--warmup", "0.1", "--concurrency", "2", "--json"]
    repository = exported(TINY, "onnxruntime").repository
    places = ["--model-repository", str(repository), "--out", str(tmp_path / "out")]
    code, out, err = servemark("compare", TINY, "--servers", "tiny,tiny:instances=2", *flags, *places)
    found = validated(json.loads(out))
    assert code == 2, err  # so short a run is never steady
    assert [turn["label"] for turn in found["turns"]] == ["tiny", "tiny:instances=2"]
    assert found["servers"]["tiny"]["requests"] == "predict"
    assert found["configurations"]["tiny:instances=2"]["instances"] == 2
    for row in found["rows"]:
        agreement, footprint = row["output_agreement"], row["footprint"]
        assert agreement["checked"] > 0
        assert agreement["max_abs_error"] < 1e-4
        assert footprint["startup_s"] > 0
        assert footprint["memory_bytes"] > 10 << 20
        assert footprint["cpu_ms_per_inference"] > 0
    [folder] = (tmp_path / "out").iterdir()
    page = (folder / "comparison.md").read_text()
    assert "CPU ms/inference" in page
    assert "| server |" in page


def test_a_product_that_is_not_here_is_left_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, servemark: Servemark, tmp_path: Path, exported: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    places = ["--model-repository", str(exported(TINY, "onnxruntime").repository), "--out", str(tmp_path / "out")]
    flags = ["--servers", "mosec,litserve", "--rounds", "1", *places]
    code, _, err = servemark("compare", TINY, *flags)
    assert code == 3
    assert "mosec cannot be compared here: mosec" in err
    assert "fix: servemark servers install mosec; or leave it out with --skip-unavailable" in err
    code, _, err = servemark("compare", TINY, *flags, "--skip-unavailable")
    assert (code, "0 of 2 servers can be used here, because of mosec: mosec" in err) == (3, True)
    assert "fix: servemark servers install mosec; servemark servers install litserve; or name others" in err
    code, _, err = servemark("compare", TINY, *flags, "--engines", "pytorch")
    assert (code, "--servers with --engines" in err) == (3, True)
