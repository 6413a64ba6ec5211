"""Signals at random moments of short runs, in the slow suite beside busy cores: each ends soon and leaves nothing."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest

from loadgen.kserve.control import Control
from loadgen.targets.shared_region import FOLDER, PREFIX
from servemark import interrupts
from servemark.figures.registry import count_of, value_of
from servemark.paths import CHECKOUT
from servemark.workload import get
from tests.golden.grpc import GoldenGrpc
from tests.golden.server import GoldenServer
from tests.support.locust_run import (
    DEADLINE_S,
    accounted,
    alive,
    command,
    results_in,
    server_of,
    started,
    the_result,
    until,
)  # fmt: skip
from tests.support.result_checks import check_counts, check_schema, constraint
from tests.support.web import free_port

ENDS_WITHIN_S = 10.0
AT_ONCE = 2
USUAL_S = 4.0
"""From a run's start to about its end."""
LOADED_S = 2.5
"""From the load's first request to about its end."""
BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
SHORT = ["--duration", "1", "--warmup", "0.3"]
LOOPS = {"closed": ["--concurrency", "3"], "open": ["--request-rate", "150"]}
WIRES = {
    "http": [],
    "grpc": ["--protocol", "grpc"],
    "http, shared memory": ["--shared-memory", "system"],
    "grpc, shared memory": ["--protocol", "grpc", "--shared-memory", "system"],
}
LOCUST = command(CHECKOUT / "benchmarks" / "rig" / "identity_locustfile.py", "--model-name", "golden")
RANKING = command("ranking", "--model", "ranking_tiny")
SERVEMARK = [sys.executable, "-m", "servemark", "run", "ranking_tiny"]
MIX = [*SERVEMARK[:-1], "ranking_tiny=1,ranking=1"]


class Trial(NamedTuple):
    """One run, and the signal that it gets at a share of its time, from its start or that of its load (`loaded`)."""

    wire: str
    loop: str
    command: list[str]
    number: signal.Signals
    share: float
    loaded: bool = False

    @property
    def probes(self) -> int:
        """Requests alone before the load, one of each process."""
        return 2 if "--workers" in self.command else 1

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> "Trial":
        """Locust over any wire, or in every third trial the command over HTTP, with one process or with workers."""
        loop, number = [*LOOPS][rng.integers(2)], interrupts.SIGNALS[rng.integers(3)]
        if rng.integers(3) == 0:
            workers = ["--workers", "2"] * int(rng.integers(2))
            return cls("http", loop, [*SERVEMARK, *workers], number, rng.uniform(), bool(rng.integers(2)))
        return cls([*WIRES][rng.integers(len(WIRES))], loop, LOCUST, number, rng.uniform(), bool(rng.integers(2)))


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    cores = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for core in cores:
            core.kill()
            core.wait()


def server_for(trial: Trial) -> GoldenServer | GoldenGrpc:
    if trial.command is not LOCUST:
        return server_of(get("ranking_tiny"), delay_s=0.005)
    return GoldenGrpc(delay_s=0.005) if "grpc" in trial.wire else GoldenServer(delay_s=0.005)


@contextlib.contextmanager
def going_on(trial: Trial, server: GoldenServer | GoldenGrpc, out: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The run, in a session of its own, of which nothing is left at the end of the block."""
    flags = [*WIRES[trial.wire], *LOOPS[trial.loop], *SHORT, "--url", server.url, "--out", str(out)]
    with (out / "log").open("wb") as log:
        process = subprocess.Popen(
            [*trial.command, *flags, "--model-repository", str(out)],
            cwd=CHECKOUT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for left in session_of(process.pid):
            left.kill()
        process.wait()


def session_of(leader: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process.pid) == leader and alive(process):
                found.append(process)
    return found


def received_by(server: GoldenServer | GoldenGrpc) -> int:
    return int(server.log()["requests"]) if isinstance(server, GoldenGrpc) else len(server.requests())


def length_s(trial: Trial, out: Path) -> float:
    """Measure such a run from its start to its end."""
    out.mkdir()
    with server_for(trial) as server:
        start_s = time.monotonic()
        with going_on(trial, server, out) as process:
            process.wait(DEADLINE_S)
    return time.monotonic() - start_s


def troubles(trial: Trial, whole_s: float, out: Path) -> Iterator[str]:
    """List the faults after a trial."""
    out.mkdir()
    with server_for(trial) as server, going_on(trial, server, out) as process:
        if trial.loaded:
            until(lambda: received_by(server) > trial.probes or process.poll() is not None, "load")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(trial.share * (LOADED_S if trial.loaded else whole_s))
        process.send_signal(trial.number)
        try:
            code = process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            yield f"it goes on after {ENDS_WITHIN_S:g} s"
            return
        if left := session_of(process.pid):
            yield f"processes are left: {left}"
        yield from regions_left(process.pid)
        received = received_by(server)
        if isinstance(server, GoldenGrpc):
            changes = server.log()["changes"]
            registered = changes.count("system register") - changes.count("system unregister")
        else:
            registered = len(json.loads(Control(server.url).ask("/v2/systemsharedmemory/status").body or b"[]"))
    if registered:
        yield f"the server still knows of {registered} regions"
    if received > trial.probes:
        yield from troubles_of_the_result(trial, out, received, code)


def troubles_of_the_result(trial: Trial, out: Path, received: int, code: int) -> Iterator[str]:
    """Measuring had begun."""
    text = (out / "log").read_text()
    if "Traceback" in text:
        yield f"a traceback: {text}"
    found: list[dict[str, Any]] = [result for result in results_in(out) if result["figures"] is not None]
    if len(found) != 1:
        yield f"{received} requests were sent, and there are {len(found)} results"
        return
    # Python puts the default handlers back at its very end.
    if code not in {interrupts.EXIT_CODE, found[0]["verdict"]["exit_code"], -trial.number}:
        yield f"exit code {code}"
    # Of what was in flight the server may not have got all; on busy cores some had not even a connection.
    interrupted = found[0]["details"]["errors"]["by_kind"].get("interrupted", 0)
    if not received <= accounted(found[0]) <= received + interrupted + 3:
        yield f"the server received {received} requests, the result knows of {accounted(found[0])}"


def regions_left(pid: int) -> list[str]:
    return [f"{path} is left" for path in FOLDER.glob(f"{PREFIX}*_{pid}_*")]


# A run with shared memory takes away what the killed ones of test_shared_memory leave: not at the same time.
FEW = [
    Trial("grpc", "open", LOCUST, signal.SIGHUP, 0.5, loaded=True),
    Trial("http", "closed", [*SERVEMARK, "--workers", "2"], signal.SIGTERM, 0.3, loaded=True),
    Trial("http", "open", SERVEMARK, signal.SIGHUP, 0.3),
]
MANY = [*map(Trial.drawn, [np.random.default_rng(9)] * 200)]


@pytest.mark.parametrize(
    "trials",
    [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
    ids=["few", "many"],
)
def test_a_signal_at_any_moment_ends_a_run_and_leaves_nothing(trials: list[Trial], tmp_path: Path) -> None:
    wrong: dict[str, list[str]] = {}
    # The fast suite keeps the cores busy itself.
    with busy_cores() if trials is MANY else contextlib.nullcontext():
        whole = Trial("http", "closed", LOCUST, signal.SIGINT, 1.0)
        whole_s = length_s(whole, tmp_path / "whole") if trials is MANY else USUAL_S

        def attempt(index: int, trial: Trial) -> None:
            if found := [*troubles(trial, whole_s, tmp_path / str(index))]:
                wrong[f"{index}: {trial}"] = found

        with ThreadPoolExecutor(AT_ONCE) as pool:
            [*pool.map(attempt, range(len(trials)), trials)]
    assert not wrong, json.dumps(wrong, indent=2)


PARTIAL = [
    ("locust, open loop", [*RANKING, "--request-rate", "200"], [signal.SIGINT, signal.SIGINT], 2),
    ("locust, closed loop", [*RANKING, "--concurrency", "3"], [signal.SIGTERM], 2),
    ("run", SERVEMARK, [signal.SIGHUP], interrupts.EXIT_CODE),
    ("run --in-process", [*SERVEMARK, "--in-process", "--request-rate", "50"], [signal.SIGINT], interrupts.EXIT_CODE),
    ("mix", [*MIX, "--request-rate", "100"], [signal.SIGTERM], interrupts.EXIT_CODE),
]


@pytest.mark.parametrize(("line", "numbers", "code"), [row[1:] for row in PARTIAL], ids=[row[0] for row in PARTIAL])
def test_every_command_that_is_interrupted_keeps_what_was_measured(
    line: list[str], numbers: list[signal.Signals], code: int, exported: Any, tmp_path: Path
) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    repository = exported("ranking_tiny", "onnxruntime").repository if "--in-process" in line else tmp_path
    with server_of(get("ranking_tiny"), delay_s=0.02, aliases=["ranking_onnxruntime"]) as server:
        where = [] if "--in-process" in line else ["--url", server.url]
        flags = [*where, "--out", str(out), "--model-repository", str(repository), "--duration", "60", "--warmup", "0"]
        with started([*line, *flags], log) as process:
            until(lambda: len(server.requests()) > 100 if where else "requests" in log.read_text(), "load")
            for number in numbers:
                process.send_signal(number)
                time.sleep(0.02)
            assert process.wait(DEADLINE_S) == code
        received = len(server.requests())
    result = the_result(out)
    assert (result["partial"], result["verdict"]["valid"]) == (True, False)
    assert accounted(result) == received if where else accounted(result) > 0
    assert all(accounted(part) > 0 for part in result.get("mix", []))
    assert result["details"]["errors"]["by_kind"].keys() <= {"interrupted"}
    # over the time that passed, not over the minute that was asked for
    rate = value_of(result, "throughput.requests")
    assert rate is not None
    assert rate > 2 * count_of(result, "requests.answered") / 60
    assert "Traceback" not in log.read_text()
    if "mix" not in result:
        check_schema(result)
        check_counts(result, accounted(result))
        assert not constraint(result, "completed")["ok"]


def test_the_generator_ends_with_the_command_that_was_killed(tmp_path: Path) -> None:
    trial = Trial("http", "open", [*SERVEMARK, "--duration", "60"], signal.SIGKILL, 0.5)
    with server_for(trial) as server, going_on(trial, server, tmp_path) as process:
        assert isinstance(server, GoldenServer)
        until(lambda: len(server.requests()) > 20, "load")
        process.send_signal(trial.number)
        until(lambda: not session_of(process.pid), "the generator's end")
    assert the_result(tmp_path)["partial"]


def test_an_official_loadgen_that_cannot_be_stopped_is_left_behind(tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen")
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        flags = ["--scenario", "SingleStream", "--url", server.url, "--out", str(tmp_path)]
        line = [
            sys.executable,
            "-m",
            "servemark",
            "mlperf",
            "ranking_tiny",
            *flags,
            "--model-repository",
            str(tmp_path),
        ]
        with started(line, tmp_path / "log") as process:
            until(lambda: "LoadGen: SingleStream" in (tmp_path / "log").read_text(), "LoadGen")
            process.send_signal(signal.SIGTERM)
            assert process.wait(ENDS_WITHIN_S) == interrupts.EXIT_CODE
    assert the_result(tmp_path)["partial"]


def test_a_master_that_waits_for_its_workers_ends(tmp_path: Path) -> None:
    port = str(free_port())
    flags = ["--master", "--expect-workers", "2", "--master-bind-port", port, "--out", str(tmp_path)]
    with started([*LOCUST, *flags], tmp_path / "log") as process:
        until(lambda: any(c.laddr.port == int(port) for c in psutil.Process(process.pid).net_connections()), "its port")
        process.send_signal(signal.SIGINT)
        assert process.wait(ENDS_WITHIN_S) == 2
    assert "Traceback" not in (tmp_path / "log").read_text()
