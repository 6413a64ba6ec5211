"""The command line: bad input ends in a message and exit code 3, `--json` in one document, ranges in several runs."""

import json
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark.cli._ranges import concurrencies, rates
from servemark.errors import OptionError
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.command_line import BAD_INPUT, servemark
from tests.support.locust_run import (
    DEADLINE_S,
    accounted,
    golden_entry,
    results_in,
    server_of,
    started,
    the_result,
    until,
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


BAD: list[tuple[str, list[str]]] = [
    ("run no_such", ["unknown workload 'no_such'", "servemark list"]),
    ("run rankin", ["unknown workload", "did you mean ranking?"]),
    ("run ranking --engine nope", ["engine 'nope' is unknown", "onnxruntime"]),
    ("serve no_such", ["unknown workload 'no_such'"]),
    ("serve ranking --engine nope", ["engine 'nope' is unknown", "onnxruntime"]),
    ("export no_such", ["unknown workload 'no_such'"]),
    ("export ranking --engine nope", ["engine 'nope' is unknown", "onnxruntime"]),
    ("export", ["no workload was named", "--all"]),
    ("list --suite nope", ["no workload belongs to the suite 'nope'"]),
    ("data nope", ["'nope' cannot be fetched", "ml-100k"]),
    ("run ranking --request-rate fast", ["--request-rate: 'fast' is not a number"]),
    ("run ranking --request-rate 0", ["0 is not above 0"]),
    ("run ranking --request-rate=-5", ["-5 is not above 0"]),
    ("run ranking --request-rate nan", ["'nan' is not a number"]),
    ("run ranking --request-rate inf", ["'inf' is not a number"]),
    ("run ranking --request-rate 1e12", ["more than 20,000,000 requests", "lower --request-rate"]),
    ("run ranking --request-rate-range 10", ["'10' is not START:END[:STEP]"]),
    ("run ranking --request-rate-range 1:2:3:4", ["is not START:END[:STEP]"]),
    ("run ranking --request-rate-range a:b", ["'a' is not a number"]),
    ("run ranking --request-rate-range 10:5", ["START <= END"]),
    ("run ranking --request-rate-range 1:10:0", ["STEP above 0"]),
    ("run ranking --request-rate-range 1:1000:1", ["asks for 1000 runs, at most 100"]),
    ("run ranking --request-rate-range 0:10", ["0 is not above 0"]),
    ("run ranking --concurrency 0", ["--concurrency 0 is not a whole number from 1"]),
    ("run ranking --concurrency 1.5", ["1.5 is not a whole number"]),
    ("run ranking --concurrency-range 1:2:0.5", ["1.5 is not a whole number"]),
    ("run ranking --concurrency 2 --request-rate 5", ["--concurrency and --request-rate exclude each other"]),
    ("run ranking --max-rate", ["--max-rate needs an objective", "--slo p99:50"]),
    ("run ranking --max-rate --slo p99:5 --request-rate 5", ["--max-rate and --request-rate exclude each other"]),
    ("run ranking --max-rate --slo p99:5 --repeat 2", ["--max-rate and --repeat exclude each other"]),
    ("run ranking --stages 10", ["--stages: '10' is not SECONDS:RATE", "10:100,10:400"]),
    ("run ranking --stages 1:5 --trace x.csv", ["--stages and --trace exclude each other"]),
    ("run ranking --trace /no/such.csv", ["--trace /no/such.csv cannot be read: No such file"]),
    ("run ranking --gamma-cv 2", ["--gamma-cv belongs to gamma arrivals", "--request-distribution gamma"]),
    ("run ranking --slo 99:50", ["--slo '99:50' is not pXX:MILLISECONDS", "--slo p99:50"]),
    ("run ranking --slo p99", ["is not pXX:MILLISECONDS"]),
    ("run ranking --slo p100:5", ["between 0 and 100"]),
    ("run ranking --slo p99:0", ["above 0 ms"]),
    ("run ranking --batch-size 0", ["--batch-size 0 must be at least 1"]),
    ("run ranking --batch-size 1.5", ["--batch-size 1.5 is not a whole number"]),
    ("run ranking --batch-size 1000", ["above ranking's maximum of 128"]),
    ("run ranking --duration 0", ["--duration 0 must be above 0"]),
    ("run ranking --duration long", ["--duration 'long' is not a number"]),
    ("run ranking --warmup=-1", ["--warmup -1 must be at least 0"]),
    ("run ranking --seed=-1", ["--seed"]),
    ("run ranking --repeat 0", ["--repeat"]),
    ("run ranking --request-distribution uniform", ["'uniform' is unknown", "poisson, constant, gamma"]),
    ("run ranking --max-error-share 2", ["--max-error-share 2 is no share"]),
    ("run ranking --max-in-flight 0", ["--max-in-flight 0 must be at least 1"]),
    ("run ranking --request-timeout 0", ["--request-timeout 0 must be above 0"]),
    ("run ranking --url ftp://localhost", ["'ftp://localhost' is not http://HOST:PORT"]),
    ("run ranking --url http://localhost:8000/v2", ["is not http://HOST:PORT"]),
    ("run ranking --protocol carrier-pigeon", ["'carrier-pigeon' is unknown"]),
    ("run ranking --streaming", ["--streaming is a way of gRPC", "--protocol grpc"]),
    ("run ranking -i http --url grpc://localhost:8001", ["is not for --protocol http"]),
    ("run ranking --in-process --workers 2", ["--in-process has no server", "--workers"]),
    ("run ranking=0.5,ncf=0.5 --request-rate 9 --workers 2", ["a mix has no --workers"]),
    ("run ranking --no-such-flag", ["--no-such-flag"]),
    ("suite nope", ["suite 'nope' is unknown", "aibench"]),
    ("suite subset --engine nope", ["engine 'nope' is unknown", "onnxruntime"]),
    ("run", ["WORKLOAD", "fix: servemark run --help"]),
    ("no_such_command", ["no_such_command", "fix: servemark --help"]),
    ("export --all ranking", ["--all and 'ranking' exclude each other"]),
    ("serve ranking --http-port 70000", ["--http-port", "fix: servemark serve --help"]),
    ("run ranking --url http://localhost:99999", ["'http://localhost:99999' is not http://HOST:PORT"]),
    ("run ranking --url http://localhost:0", ["'http://localhost:0' is not http://HOST:PORT"]),
    ("run ranking --stages 10:-1", ["--stages: rate -1 must be at least 0"]),
    ("run ranking --duration 1 -u http://127.0.0.1:1#metrics=x", ["#metrics=x is no port"]),
]


@pytest.mark.parametrize(("line", "words"), BAD, ids=[line for line, _ in BAD])
def test_bad_input(
    line: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert servemark(monkeypatch, *line.split()) == BAD_INPUT
    out, err = capfd.readouterr()
    assert out == ""
    assert all(word in err for word in words), err
    assert err.startswith("servemark: ")
    assert "Traceback" not in err


def drive(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], out: Path, *arguments: str
) -> tuple[int, str, str]:
    """`servemark run` with short times; exit code, stdout, stderr."""
    code = servemark(monkeypatch, "run", *arguments, "--out", str(out), "--warmup", "0.1")
    return code, *capfd.readouterr()


def test_unreachable_url(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, dead_url: str
) -> None:
    code, _, err = drive(monkeypatch, capfd, tmp_path, TINY, "-u", dead_url)
    assert code == BAD_INPUT
    assert f"no server answers at {dead_url} (connection refused)" in err
    assert f"`servemark serve {TINY} --engine onnxruntime`" in err
    # nothing was measured: no empty result directory is left behind
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"model": f"{TINY}_onnxruntime"}, ["is not this workload", "INPUT0 FP32[64]", "user INT32[1], seq INT32[5]"]),
        ({"model": "another"}, [f"does not serve '{TINY}_onnxruntime'", f"servemark serve {TINY}"]),
    ],
)
def test_a_foreign_server(
    server: dict[str, Any],
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    with GoldenServer(**server) as foreign:
        code, _, err = drive(monkeypatch, capfd, tmp_path, TINY, "-u", foreign.url)
    assert code == BAD_INPUT
    assert all(word in err for word in words), err


def test_bad_data_names_file_and_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "ml-100k"
    data.mkdir()
    (data / "u.data").write_text("196\t242\t3\t881250949\n186\t302\tthree\t891717742\n")
    with server_of(get("ranking")) as server:
        flags = ["ranking", "-u", server.url, "--input-data", "dataset", "--data-root", str(tmp_path)]
        code, _, err = drive(monkeypatch, capfd, tmp_path / "out", *flags)
        assert server.requests() == []
    assert code == BAD_INPUT
    assert f"{data}/u.data:2: rating 'three' is not an integer" in err


@pytest.mark.parametrize("content", [None, b"onnx"], ids=["missing", "damaged"])
def test_serving_a_bad_model_file(
    content: bytes | None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from exporters.pipeline import config_pbtxt

    folder = tmp_path / f"{TINY}_onnxruntime"
    (folder / "1").mkdir(parents=True)
    rendered = config_pbtxt.render(get(TINY), model=folder.name, engine="onnxruntime", artifact="model.onnx")
    (folder / "config.pbtxt").write_text(rendered)
    if content is not None:
        (folder / "1" / "model.onnx").write_bytes(content)
    ports = [flag for kind in ("http", "grpc", "metrics") for flag in (f"--{kind}-port", "0")]
    assert servemark(monkeypatch, "serve", TINY, "--model-repository", str(tmp_path), *ports) == BAD_INPUT
    err = capfd.readouterr().err
    assert ("holds no model file" if content is None else "model.onnx") in err
    assert f"servemark export {TINY} --engine onnxruntime --force" in err


def test_a_truncated_golden_file(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, ranking: GoldenServer
) -> None:
    entry = golden_entry(tmp_path)
    entry.golden.write_bytes(entry.golden.read_bytes()[:200])
    flags = [TINY, "-u", ranking.url, "--model-repository", str(tmp_path)]
    code, _, err = drive(monkeypatch, capfd, tmp_path / "out", *flags)
    assert code == BAD_INPUT
    assert f"{entry.golden} cannot be read" in err
    assert "--force" in err


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_json_is_one_document(command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert servemark(monkeypatch, command, "--json") in {0, BAD_INPUT}
    assert json.loads(capfd.readouterr().out)


@pytest.mark.parametrize(("percent", "ok"), [(3.0, True), (96.0, False)])
def test_doctor_tells_a_busy_machine(
    percent: float, ok: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("psutil.cpu_percent", lambda _interval: percent)
    servemark(monkeypatch, "doctor", "--json")
    [check] = [c for c in json.loads(capfd.readouterr().out)["checks"] if c["name"] == "cpu idle"]
    assert check["ok"] is ok
    assert check["detail"].startswith(f"{percent:.0f}% of the CPU is in use")


def test_run_json_is_the_result(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, ranking: GoldenServer
) -> None:
    ranking.reset()
    flags = [TINY, "-u", ranking.url, "--duration", "0.5", "--json", "-b", "2"]
    code, out, err = drive(monkeypatch, capfd, tmp_path, *flags)
    document = json.loads(out)
    assert document == the_result(tmp_path)
    assert (code, document["verdict"]["exit_code"]) == (2, 2)
    assert accounted(document) == len(ranking.requests())
    assert "Result is : INVALID" in err


def test_a_range_is_one_run_for_each_point(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, ranking: GoldenServer
) -> None:
    flags = [TINY, "-u", ranking.url, "--duration", "0.5", "--seed", "7", "--request-distribution", "constant"]
    code, out, _ = drive(monkeypatch, capfd, tmp_path, *flags, "--request-rate-range", "50:100:50", "--json")
    runs = json.loads(out)["results"]
    assert code == 2
    assert [run["scenario"]["requested_rate"] for run in runs] == [50, 100]
    assert [run["metrics"]["latency_ms"]["count"] for run in runs] == [25, 50]
    assert [run["seed"] for run in runs] == [7, 7]
    assert len(results_in(tmp_path)) == 2


def test_a_missed_objective_has_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with server_of(get(TINY), delay_s=0.03) as server:
        flags = [TINY, "-u", server.url, "--concurrency", "8", "--duration", "3", "--slo", "p90:5"]
        code, shown, _ = drive(monkeypatch, capfd, tmp_path, *flags, "--model-repository", str(tmp_path / "none"))
    verdict = the_result(tmp_path)["verdict"]
    failed = {c["name"] for c in verdict["constraints"] if not c["ok"]}
    # A busy machine may not be steady either, which weighs more.
    assert {"slo"} <= failed <= {"slo", "steady_state", "client_cpu"}
    assert code == verdict["exit_code"] == (4 if failed == {"slo"} else 2)
    assert "Result is : INVALID" in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_its_result(number: signal.Signals, tmp_path: Path) -> None:
    with server_of(get(TINY), delay_s=0.01) as server:
        flags = ["run", TINY, "-u", server.url, "--duration", "60", "--warmup", "0", "--out", str(tmp_path)]
        with started([sys.executable, "-m", "servemark", *flags], tmp_path / "log") as process:
            until(lambda: len(server.requests()) > 100, "load")
            process.send_signal(number)
            assert process.wait(DEADLINE_S) == 130
        received = len(server.requests())
    result = the_result(tmp_path)
    assert (result["partial"], accounted(result)) == (True, received)
    assert "Traceback" not in (tmp_path / "log").read_text()


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
