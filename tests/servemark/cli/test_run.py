"""`servemark run` against golden servers: `--json` is one document, a range is several runs, the verdict decides."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark.cli._ranges import concurrencies, rates
from servemark.errors import OptionError
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.locust_run import (
    accounted,
    golden_entry,
    results_in,
    server_of,
    the_result,
)

TINY = "ranking_tiny"


@pytest.fixture
def dead_url() -> Iterator[str]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"


@pytest.fixture(scope="module")
def ranking() -> Iterator[GoldenServer]:
    with server_of(get(TINY), delay_s=0.01) as server:
        yield server


@pytest.fixture
def drive(servemark: Servemark, tmp_path: Path) -> Servemark:
    """`servemark run` with a short warm-up."""
    return lambda *arguments: servemark("run", *arguments, "--out", str(tmp_path / "out"), "--warmup", "0.1")


def test_unreachable_url(drive: Servemark, tmp_path: Path, dead_url: str) -> None:
    code, _, err = drive(TINY, "-u", dead_url)
    assert code == BAD_INPUT
    assert f"no server answers at {dead_url} (connection refused)" in err
    assert f"`servemark serve {TINY} --engine onnxruntime`" in err
    # nothing was measured: no empty result directory is left behind
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"model": f"{TINY}_onnxruntime"}, ["is not this workload", "INPUT0 FP32[64]", "user INT32[1], seq INT32[5]"]),
        ({"model": "another"}, [f"does not serve '{TINY}_onnxruntime'", f"servemark serve {TINY}"]),
    ],
)
def test_a_foreign_server(server: dict[str, Any], words: list[str], drive: Servemark) -> None:
    with GoldenServer(**server) as foreign:
        code, _, err = drive(TINY, "-u", foreign.url)
    assert code == BAD_INPUT
    assert all(word in err for word in words), err


def test_bad_data_names_file_and_line(drive: Servemark, tmp_path: Path) -> None:
    data = tmp_path / "ml-100k"
    data.mkdir()
    (data / "u.data").write_text("196\t242\t3\t881250949\n186\t302\tthree\t891717742\n")
    with server_of(get("ranking")) as server:
        flags = ["ranking", "-u", server.url, "--input-data", "dataset", "--data-root", str(tmp_path)]
        code, _, err = drive(*flags)
        assert server.requests() == []
    assert code == BAD_INPUT
    assert f"{data}/u.data:2: rating 'three' is not an integer" in err


@pytest.mark.parametrize("content", [None, b"onnx"], ids=["missing", "damaged"])
def test_serving_a_bad_model_file(content: bytes | None, servemark: Servemark, tmp_path: Path) -> None:
    from exporters.pipeline import config_pbtxt

    folder = tmp_path / f"{TINY}_onnxruntime"
    (folder / "1").mkdir(parents=True)
    rendered = config_pbtxt.render(get(TINY), model=folder.name, engine="onnxruntime", artifact="model.onnx")
    (folder / "config.pbtxt").write_text(rendered)
    if content is not None:
        (folder / "1" / "model.onnx").write_bytes(content)
    ports = [flag for kind in ("http", "grpc", "metrics") for flag in (f"--{kind}-port", "0")]
    code, _, err = servemark("serve", TINY, "--model-repository", str(tmp_path), *ports)
    assert code == BAD_INPUT
    assert ("holds no model file" if content is None else "model.onnx") in err
    assert f"servemark export {TINY} --engine onnxruntime --force" in err


def test_a_truncated_golden_file(drive: Servemark, tmp_path: Path, ranking: GoldenServer) -> None:
    entry = golden_entry(tmp_path)
    entry.golden.write_bytes(entry.golden.read_bytes()[:200])
    flags = [TINY, "-u", ranking.url, "--model-repository", str(tmp_path)]
    code, _, err = drive(*flags)
    assert code == BAD_INPUT
    assert f"{entry.golden} cannot be read" in err
    assert "--force" in err


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_json_is_one_document(command: str, servemark: Servemark) -> None:
    done = servemark(command, "--json")
    assert done.code in {0, BAD_INPUT}
    assert json.loads(done.out)


@pytest.mark.parametrize(("percent", "ok"), [(3.0, True), (96.0, False)])
def test_doctor_tells_a_busy_machine(
    percent: float, ok: bool, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.cpu_percent", lambda _interval: percent)
    [check] = [c for c in json.loads(servemark("doctor", "--json").out)["checks"] if c["name"] == "cpu idle"]
    assert check["ok"] is ok
    assert check["detail"].startswith(f"{percent:.0f}% of the CPU is in use")


def test_run_json_is_the_result(drive: Servemark, tmp_path: Path, ranking: GoldenServer) -> None:
    ranking.reset()
    flags = [TINY, "-u", ranking.url, "--duration", "0.5", "--json", "-b", "2"]
    code, out, err = drive(*flags)
    document = json.loads(out)
    assert document == the_result(tmp_path / "out")
    assert (code, document["verdict"]["exit_code"]) == (2, 2)
    assert accounted(document) == len(ranking.requests())
    assert "Result is : INVALID" in err


def test_a_range_is_one_run_for_each_point(drive: Servemark, tmp_path: Path, ranking: GoldenServer) -> None:
    flags = [TINY, "-u", ranking.url, "--duration", "0.5", "--seed", "7", "--request-distribution", "constant"]
    code, out, _ = drive(*flags, "--request-rate-range", "50:100:50", "--json")
    runs = json.loads(out)["results"]
    assert code == 2
    assert [run["scenario"]["requested_rate"] for run in runs] == [50, 100]
    assert [run["metrics"]["latency_ms"]["count"] for run in runs] == [25, 50]
    assert [run["seed"] for run in runs] == [7, 7]
    assert len(results_in(tmp_path / "out")) == 2


def test_a_missed_objective_has_an_exit_code_of_its_own(drive: Servemark, tmp_path: Path) -> None:
    with server_of(get(TINY), delay_s=0.03) as server:
        flags = [TINY, "-u", server.url, "--concurrency", "8", "--duration", "3", "--slo", "p90:5"]
        code, shown, _ = drive(*flags, "--model-repository", str(tmp_path / "none"))
    verdict = the_result(tmp_path / "out")["verdict"]
    failed = {c["name"] for c in verdict["constraints"] if not c["ok"]}
    # A busy machine may not be steady either, which weighs more.
    assert {"slo"} <= failed <= {"slo", "steady_state", "client_cpu"}
    assert code == verdict["exit_code"] == (4 if failed == {"slo"} else 2)
    assert "Result is : INVALID" in shown


def test_ranges() -> None:
    assert concurrencies("--concurrency", "8", "") == [8]
    assert concurrencies("--concurrency", "1", "1:4") == [1, 2, 3, 4]
    assert concurrencies("--concurrency", "1", "1:16:5") == [1, 6, 11, 16]
    assert concurrencies("--concurrency", "1", "2:9:5") == [2, 7]
    assert concurrencies("--concurrency", "1", "3:3") == [3]
    np.testing.assert_allclose(rates("--request-rate", "", "0.1:0.5:0.1"), [0.1, 0.2, 0.3, 0.4, 0.5])
    assert len(rates("--request-rate", "", "1:100")) == 100
    with pytest.raises(OptionError, match="asks for 101 runs"):
        rates("--request-rate", "", "1:101")
