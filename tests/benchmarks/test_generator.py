"""The benchmarks' own reading and arithmetic: what they say of perf_analyzer, of CPU time and of aims."""

import math
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import psutil
import pytest

from benchmarks import generator
from benchmarks.generator import BENCHMARKS, COMPARISONS, MAIN, rows
from benchmarks.rig import load as rig
from benchmarks.rig.load import Endpoints, Load, Reading
from benchmarks.rig.null_server import NullServer
from benchmarks.rig.pairs import Aim, Claim, Figures, alternate, rounds
from loadgen.kserve.control import Control
from loadgen.kserve.http_messages import Asked
from loadgen.peers.programs import PEERS
from servemark.machine import scheduling
from tests.golden.load import Load as Driven


@pytest.mark.parametrize(
    ("load", "theirs", "ours"),
    [
        (Load(), "-m identity -u h -i http -p 1000 -s 1000 -f report.csv --concurrency-range 32", "--users 32"),
        (Load(protocol="grpc", streaming=True), "-i grpc --streaming", "--streaming"),
        (
            Load(tensor_format="json"),
            "--input-tensor-format=json --output-tensor-format=json",
            "--input-tensor-format json",
        ),
        (Load("identity_image", shared_memory="system"), "--shared-memory=system", "--shared-memory system"),
    ],
)
def test_both_generators_are_told_the_same_load(load: Load, theirs: str, ours: str) -> None:
    told = rig.peer("perf_analyzer", load).command(rig.peer_load(Endpoints("h", "h"), load, 3), Path())
    assert theirs in " ".join(told)
    ours_told = " ".join(rig.locust_flags(load, "h"))
    assert ours in ours_told
    assert f"--host {load.protocol}://h --model {load.model}" in ours_told


def test_cpu_for_each_request_is_the_difference_of_two_readings() -> None:
    assert rig.cpu_us(Reading(1.5, 100), Reading(2.5, 40_100)) == pytest.approx(25)
    assert math.isnan(rig.cpu_us(Reading(1.5, 100), Reading(2.5, 100)))


BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint('burnt', flush=True)\n"


def test_used_cpu_is_that_of_a_process_and_its_children() -> None:
    child = f"import subprocess, sys, time\np = subprocess.Popen([sys.executable, '-c', {BURN + 'time.sleep(60)'!r}])\n"
    with subprocess.Popen([sys.executable, "-c", child + "time.sleep(60)"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"burnt\n"
        used_s = rig.used_s(process.pid)
        for each in psutil.Process(process.pid).children():
            each.kill()
        process.kill()
    assert used_s >= 0.28  # the kernel counts in ticks of 10 ms


def test_a_generator_is_metered_while_it_runs(tmp_path: Path) -> None:
    enough, asked = tmp_path / "enough", count(0, 100)

    def answered() -> int:
        counted = next(asked)
        if counted == 300:  # before it began, at the first answers, at the first edge and now at the last
            enough.touch()
        return counted

    child = f"import pathlib\nprint('on')\nwhile not pathlib.Path({str(enough)!r}).exists(): pass"
    done = rig.metered([sys.executable, "-c", child], answered, seconds=0.5)
    assert (done.output, done.code) == ("on\n", 0)
    assert done.cpu_us > 0


def test_a_generator_that_ends_too_early_has_no_cpu_figure() -> None:
    done = rig.metered([sys.executable, "-c", "print('wrong flag'); raise SystemExit(3)"], lambda: 0, seconds=1)
    assert (done.output, done.code) == ("wrong flag\n", 3)
    assert math.isnan(done.cpu_us)


@pytest.mark.parametrize(
    ("aim", "value", "words"),
    [
        (Aim(least=1.5), 1.5, "aim >= 1.5: met"),
        (Aim(least=1.5), 1.499, "aim >= 1.5: NOT MET"),
        (Aim(most=0.8), 0.81, "aim <= 0.8: NOT MET"),
        (Aim(0.99, 1.01), 1.0, "aim 0.99 to 1.01: met"),
        (Aim(0.99, 1.01), 0.98, "aim 0.99 to 1.01: NOT MET"),
        (Aim(most=1.0), math.nan, "aim <= 1: NOT MET"),
        (Aim(), 3.0, "no aim"),
    ],
)
def test_an_aim_says_whether_it_was_met(aim: Aim, value: float, words: str) -> None:
    assert aim.verdict(value) == words


def test_a_claim_is_the_ratio_of_pairs() -> None:
    pairs = [(Figures(3000 * n, 1.0, 20.0), Figures(2000 * n, 1.0, 40.0)) for n in (1, 2, 3)]
    shown = Claim("requests_per_s", Aim(least=1.6)).report(pairs)
    assert shown == "requests_per_s ratio servemark / perf_analyzer: 1.500 (no interval); aim >= 1.6: NOT MET"
    assert "0.500 (no interval); aim <= 0.8: met" in Claim("cpu_us", Aim(most=0.8)).report(pairs)


def test_pairs_alternate() -> None:
    order: list[str] = []
    assert list(alternate(lambda: order.append("a"), lambda: order.append("b"), 3)) == [(None, None)] * 3
    assert "".join(order) == "abbaab"


def test_sides_take_turns_and_further_ones_take_part_in_two_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    order: list[str] = []

    def side(name: str) -> Figures:
        order.append(name)
        return Figures(100, 1, 10)

    found = rounds({name: partial(side, name) for name in "abc"}, 3, 2)
    assert "".join(order) == "abccbaab"
    assert [len(each) for each in found.values()] == [3, 3, 2]
    assert "round 3/3: a 100/s p50 1.000 ms 10.0 µs, b" in capsys.readouterr().out


def test_the_table_has_a_row_for_each_claim_and_says_which_peer_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PEERS:
        monkeypatch.setenv(name.upper(), sys.executable)
    monkeypatch.setenv("HEY", "/nowhere/hey")
    comparison, figures = COMPARISONS["ceiling"], [Figures(3000 * n, 1.0, 20.0) for n in (1, 2, 3)]
    sides = {
        "servemark": figures,
        "perf_analyzer": figures,
        "wrk": [each._replace(requests_per_s=each[0] * 2) for each in figures],
    }
    sides["h2load"] = figures[:2]
    found = rows(comparison, {"both": sides, "neither": sides})
    assert len(found) == len(comparison.claims) + len(comparison.further)
    [wrk] = [row for row in found if "| wrk |" in row]
    assert wrk.endswith(
        "requests_per_s | 0.50; 6000 against 1.2e+04 | 0.50; 6000 against 1.2e+04 | aim >= 0.75: NOT MET |"
    )
    assert "not run: not on PATH, nor where HEY= says: apt install hey" in found[-1]
    assert {"peers", "image", "image-shm", "turns", *MAIN} <= {*BENCHMARKS}


def test_cores_are_awake_for_both_or_for_neither(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rig, "hold_awake", lambda: scheduling.hold_awake(tmp_path / "device"))
    with rig.cores_awake("neither"):
        pass
    with pytest.raises(SystemExit, match=r"--cores-awake both: .*No such file"), rig.cores_awake("both"):
        pass
    (tmp_path / "device").touch()
    with rig.cores_awake("both"):
        assert any(file.path == str(tmp_path / "device") for file in psutil.Process().open_files())
    assert (tmp_path / "device").stat().st_size == 4


def test_a_generator_that_ended_by_itself_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generator, "locust_command", lambda *_: ["-c", ""])
    with pytest.raises(SystemExit, match="did not start"), generator.stopped(Load(), tmp_path, 1.0):
        pass


def test_a_benchmark_that_hangs_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hang(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        if "http" in command:
            raise subprocess.TimeoutExpired(command, 1800)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(sys, "argv", ["generator", "http", "grpc"])
    monkeypatch.setattr(subprocess, "run", hang)
    monkeypatch.setattr(generator, "_machine", lambda: "a machine")
    with pytest.raises(SystemExit, match=r"^failed: http \(not done within 1800 s\)$"):
        generator.main()
    assert "generator grpc" in capsys.readouterr().out


@pytest.fixture(scope="module")
def null() -> Iterator[Endpoints]:
    with NullServer() as server:
        yield server.endpoints


def test_the_null_server_answers_and_counts_every_request(null: Endpoints) -> None:
    host, port = null.http.split(":")
    before = null.counter("identity")()
    load = Driven(int(port), connect=4, asked=Asked("identity", frozenset({"1"}))).closed(4, 0.2)
    assert set(load.kinds) == {"ok"}
    assert null.counter("identity")() - before == len(load.outcomes) > 0
    assert Control(f"http://{null.http}").placement("identity").engine == "golden"
    request = next(Driven(0, width=32).payloads()).request  # another length than before, in pieces, and two at once
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        for piece in (request[:10], request[10:200], request[200:] + request):
            connection.sendall(piece)
        received = b""
        while received.count(b"HTTP/1.1 200") < 2:
            received += connection.recv(65536)
    assert null.counter("identity")() - before == len(load.outcomes) + 2
