"""`servemark run` against golden servers: `--json` is one document, and the verdict decides."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadgen.targets.open import open_target
from servemark.errors import ServerError
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.load_config import config
from tests.support.locust_run import accounted, golden_entry, server_of, the_result

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
    port = dead_url.rpartition(":")[2]
    assert f"`servemark serve {TINY} --engine onnxruntime --http-port {port}`" in err
    # nothing was measured: no empty result directory is left behind
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"model": f"{TINY}_onnxruntime"}, ["is not this workload", "INPUT0 FP32[64]", "user INT32[1], seq INT32[5]"]),
        ({"model": "another"}, [f"does not serve '{TINY}_onnxruntime'", f"servemark serve {TINY}"]),
    ],
)
def test_a_foreign_server(server: dict[str, Any], words: list[str]) -> None:
    """As a run asks it before its load; how a run ends of it shows the unreachable one."""
    with GoldenServer(**server) as foreign, pytest.raises(ServerError) as refused:
        open_target(config(TINY, "-u", foreign.url)).prepare()
    assert all(word in str(refused.value) for word in words)


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


def test_a_truncated_golden_file(drive: Servemark, tmp_path: Path, ranking: GoldenServer) -> None:
    entry = golden_entry(tmp_path)
    entry.golden.write_bytes(entry.golden.read_bytes()[:200])
    flags = [TINY, "-u", ranking.url, "--model-repository", str(tmp_path)]
    code, _, err = drive(*flags)
    assert code == BAD_INPUT
    assert f"{entry.golden} cannot be read" in err
    assert "--force" in err


def test_run_json_is_the_result(drive: Servemark, tmp_path: Path, ranking: GoldenServer) -> None:
    ranking.reset()
    flags = [TINY, "-u", ranking.url, "--duration", "0.5", "--json", "-b", "2"]
    code, out, err = drive(*flags)
    document = json.loads(out)
    assert document == the_result(tmp_path / "out")
    assert (code, document["verdict"]["exit_code"]) == (2, 2)
    assert accounted(document) == len(ranking.requests())
    assert err == ""


def test_a_missed_objective_has_an_exit_code_of_its_own(drive: Servemark, tmp_path: Path) -> None:
    with server_of(get(TINY), delay_s=0.03) as server:
        flags = [TINY, "-u", server.url, "--concurrency", "2", "--duration", "3", "--slo", "p90:5"]
        code, shown, _ = drive(*flags, "--model-repository", str(tmp_path / "none"))
    verdict = the_result(tmp_path / "out")["verdict"]
    failed = {c["name"] for c in verdict["constraints"] if not c["ok"]}
    # A busy machine may not be steady either, which weighs more.
    assert verdict["objective"] == "missed"
    assert failed <= {"other_load", "steady_state", "client_cpu", "generator_pause"}
    assert code == verdict["exit_code"] == (2 if failed else 4)
    assert f"Result is : {'INVALID' if failed else 'VALID'}; objective MISSED" in shown


def test_commands_beside_the_load_and_the_recovery_from_them(servemark: Servemark, tmp_path: Path) -> None:
    with server_of(get("ranking_tiny")) as server:
        flags = ["--request-rate", "60", "--duration", "1.5", "--warmup", "0.1", "--slo", "recovery:5s", "--json"]
        flags += ["--at", "0.5:echo it was done", "-u", server.url, "--out", str(tmp_path)]
        code, out, _ = servemark("run", "ranking_tiny", *flags)
    result = json.loads(out)
    [command] = result["commands"]
    assert (command["command"], command["exit_code"], command["said"]) == ("echo it was done", 0, "it was done")
    assert 0.5 <= command["at_s"] < 1.0
    assert "before the first 5 seconds" in command["recovery_s_reason"]
    assert {"steady_state", "error_rate", "server_alive"} <= set(result["verdict"]["skipped"])
    assert [window["start_s"] for window in result["windows"]] == [0.0, 1.0]
    assert result["verdict"]["objective"] == "undecided"
    assert code in {2, 4}


@pytest.mark.slow
def test_a_server_that_stood_still_recovers(servemark: Servemark, tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        still = f"sh -c 'kill -STOP {server.pid}; sleep 2; kill -CONT {server.pid}'"
        flags = ["--request-rate", "50", "--duration", "18", "--warmup", "0.5", "--slo", "recovery:6s", "--json"]
        flags += ["-u", server.url, "--out", str(tmp_path)]
        _, out, _ = servemark("run", "ranking_tiny", *flags, "--at", f"7:{still}")
    [command] = json.loads(out)["commands"]
    assert command["worst_ms"] > 900
    assert 1.5 <= command["recovery_s"] <= 6.0
