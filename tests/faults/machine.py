"""Faults of the generator's machine and processes: signals, no descriptors, clocks, lost workers."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import psutil

import servers
from loadgen.targets.shared_region import PREFIX
from servemark.figures.registry import value_of
from servemark.paths import CHECKOUT
from servemark.results.verdict import Kind
from servemark.workload import get
from servers.launch.server import Server
from tests.faults.answers import ANY, EVERY
from tests.faults.generator import LOCUST, SERVEMARK, SHARED_MEMORY, Rig, Run
from tests.faults.raw_http import Proxy
from tests.faults.registry import INTERRUPTED, INVALID, Expected, Seen, fault
from tests.golden.server import GoldenServer
from tests.support.locust_run import alive, server_of

LONG = ("--duration", "30")
REPOSITORY = CHECKOUT / "benchmarks" / "rig" / "model_repo"
BROKEN = ("connection_refused", "connection_reset", "connection_closed", "timeout")
UNTIL_GONE_S = 10.0
JUDGED_MIB = 64.0
"""Memory that a run may use in addition if its windows are judged, because judging imports packages."""
AFTER_WARMUP_S = 0.8


def interrupted(rig: Rig, *numbers: signal.Signals, command: Sequence[str] = LOCUST) -> Seen:
    """A long run that gets signals 20 ms apart; all that was measured until then is in its result."""

    def send(run: Run) -> None:
        time.sleep(AFTER_WARMUP_S)
        for number in numbers:
            run.signal(number)
            time.sleep(0.02)

    return rig.answered(*LONG, command=command, during=send)


CUT_SHORT = Expected(codes=(INVALID, INTERRUPTED), kinds=(), also=("interrupted",), result="partial")
SIGNALS = {
    "sigint": (signal.SIGINT,),
    "sigterm": (signal.SIGTERM,),
    "sighup": (signal.SIGHUP,),
    "sigint-twice": (signal.SIGINT, signal.SIGINT),
}
for _name, _numbers in SIGNALS.items():
    for _program, _command in (("locust", LOCUST), ("servemark run", SERVEMARK)):
        _words = " and again, 20 ms apart" if len(_numbers) > 1 else ""

        @fault(21, f"{_name}-{_program.split()[0]}", f"{_numbers[0].name}{_words}, `{_program}`",
               "to all processes of the run", CUT_SHORT)  # fmt: skip
        def _signal(rig: Rig, numbers: tuple[signal.Signals, ...] = _numbers, command: list[str] = _command) -> Seen:
            return interrupted(rig, *numbers, command=command)


@fault(22, "sigkill", "SIGKILL of `servemark run`; its generator ends with it", "to the parent alone",
       Expected(codes=(-signal.SIGKILL,), also=("interrupted",), result="partial"))  # fmt: skip
def _sigkill(rig: Rig) -> Seen:
    def kill_parent(run: Run) -> None:
        time.sleep(AFTER_WARMUP_S)
        run.process.kill()

    return rig.answered(*LONG, command=SERVEMARK, during=kill_parent)


OWNER = """
import sys, time
from pathlib import Path
import servers
with servers.open_server("embedded", Path(sys.argv[1]), ["identity"]) as server:
    print(server.http, flush=True)
    time.sleep(600)
"""


@fault(22, "sigkill-triton", "SIGKILL of what has started the embedded Triton, in the middle of a run",
       "to the owner of a real Triton",
       Expected(kinds=("connection_refused",), also=BROKEN, fails=Kind.SERVER_ALIVE))  # fmt: skip
def _sigkill_triton(rig: Rig) -> Seen:
    command = [sys.executable, "-c", OWNER, str(REPOSITORY)]
    scratch = rig.new_folder()
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(scratch)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        try:
            url = f"http://{owner.stdout.readline().strip()}"
            below = psutil.Process(owner.pid).children(recursive=True)
            seen = rig.run(url, *IDENTITY, loaded=_executed(url), during=lambda _: owner.kill())
        finally:
            owner.kill()
    seen.left += _outlived(below) + _regions(owner.pid)
    return seen


IDENTITY = ("--model-name", "identity", "--request-rate", "200", "--duration", "6")


def _outlived(processes: list[psutil.Process]) -> list[str]:
    deadline = time.monotonic() + UNTIL_GONE_S
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [f"process {each.pid} left" for each in processes if alive(each)]


def _regions(pid: int) -> list[str]:
    deadline = time.monotonic() + UNTIL_GONE_S
    while (found := [*SHARED_MEMORY.glob(f"servemark_{pid}_*")]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [f"{path.name} left in shared memory" for path in found]


@contextlib.contextmanager
def triton() -> Iterator[Server]:
    """The real one, embedded, with the identity model."""
    with servers.open_server("embedded", REPOSITORY, ["identity"]) as server:
        yield server


def _executed(url: str) -> Callable[[], bool]:
    """Return a function that is True once the server has answered some requests."""
    from loadgen.kserve.control import Control

    def some() -> bool:
        statistics = Control(url).statistics("identity")
        return statistics is not None and int(statistics["inference_stats"]["success"]["count"]) > EVERY * 4

    return some


def _inside(name: str) -> list[psutil.Process]:
    """Processes below this one, by the name of their program."""
    below = psutil.Process().children(recursive=True)
    return [each for each in below if alive(each) and each.exe().rpartition("/")[2].startswith(name)]


def _kill(name: str) -> None:
    for each in _inside(name):
        each.kill()


@fault(16, "triton-dies", "Triton is killed in the middle of a run", "SIGKILL of a real Triton",
       Expected(kinds=("connection_refused",), also=BROKEN, fails=Kind.SERVER_ALIVE))  # fmt: skip
def _triton_dies(rig: Rig) -> Seen:
    with triton() as server:
        seen = rig.run(
            f"http://{server.http}",
            *IDENTITY,
            loaded=_executed(f"http://{server.http}"),
            during=lambda _: _kill("tritonserver"),
        )
    seen.left += _regions(os.getpid())
    return seen


@fault(16, "backend-dies", "the process of the model's backend is killed", "SIGKILL of a real Triton's stub",
       Expected(kinds=("backend_died",), also=("timeout",), fails=Kind.SERVER_ALIVE))  # fmt: skip
def _backend_dies(rig: Rig) -> Seen:
    def kill(_: Run) -> None:
        time.sleep(AFTER_WARMUP_S)
        _kill("triton_python_b")

    with triton() as server:
        seen = rig.run(
            f"http://{server.http}",
            *(*IDENTITY[:2], "--duration", "6", "--request-timeout", "30"),
            loaded=_executed(f"http://{server.http}"),
            during=kill,
        )
    seen.left += _regions(os.getpid())
    return seen


@fault(16, "triton-restarts", "Triton is ended, and another one answers at the same address",
       "two real Tritons behind a proxy",
       Expected(also=(*BROKEN, "malformed_response"), growth_mib=JUDGED_MIB, fails=Kind.SERVER_ALIVE))  # fmt: skip
def _triton_restarts(rig: Rig) -> Seen:
    with triton() as first, triton() as second, Proxy(int(first.http.rpartition(":")[2])) as proxy:

        def restart(_: Run) -> None:
            proxy.target = int(second.http.rpartition(":")[2])
            first.stop()

        return rig.run(
            f"http://127.0.0.1:{proxy.port}", *IDENTITY, loaded=_executed(f"http://{first.http}"), during=restart
        )


@fault(18, "descriptors", "64 connections, and descriptors for fewer", "`ulimit -n 64`",
       Expected(kinds=("too_many_open_files",), also=("timeout",)))  # fmt: skip
def _descriptors(rig: Rig) -> Seen:
    line = ["bash", "-c", 'ulimit -n 64; exec "$@"', "bash"]
    return rig.answered("--concurrency", "64", before=line, received=None)


CLOCK = """
import os, threading, time
real = time.time
start = time.monotonic()
time.time = lambda: real() + (STEP if time.monotonic() - start > 6 else 0)
"""


for _step in (3600, -3600):

    @fault(23, f"clock{_step:+d}", f"the wall clock steps by {_step:+,} s", "`time.time` replaced in each process",
           Expected(codes=ANY, growth_mib=JUDGED_MIB))  # fmt: skip
    def _clock(rig: Rig, step: int = _step) -> Seen:
        folder = rig.new_folder()
        (folder / "sitecustomize.py").write_text(CLOCK.replace("STEP", str(step)))
        return rig.answered(
            *("--workers", "2", "--duration", "10", "--request-rate", "100"),
            command=SERVEMARK,
            environment={"PYTHONPATH": f"{folder}:{CHECKOUT}"},
        )


def _workers(run: Run) -> list[psutil.Process]:
    """Those of a distributed run: children of the master."""
    return [child for child in run.children() if child.parent() != psutil.Process(run.process.pid)]


for _name, _number, _what in (
    ("worker-killed", signal.SIGKILL, "a worker is killed"),
    ("worker-stopped", signal.SIGSTOP, "a worker is stopped, and never heard again"),
):

    @fault(24, _name, _what, f"{_number.name} to one of two",
           Expected(kinds=None, within_s=120, growth_mib=JUDGED_MIB, fails=Kind.WORKERS))  # fmt: skip
    def _worker(rig: Rig, number: signal.Signals = _number) -> Seen:
        return rig.answered(
            *("--workers", "2", "--duration", "6", "--request-rate", "100"),
            command=SERVEMARK,
            received=None,
            during=lambda run: _workers(run)[0].send_signal(number),
        )


def _stop(run: Run, for_s: float) -> None:
    """Have a run stand still."""
    run.signal(signal.SIGSTOP)
    time.sleep(for_s)
    run.signal(signal.SIGCONT)


@fault(32, "stopped", "the generator stands still for a second", "SIGSTOP, SIGCONT",
       Expected(kinds=(), also=("timeout",), fails=Kind.SCHEDULE_DELAY))  # fmt: skip
def _stopped(rig: Rig) -> Seen:
    seen = rig.answered("--request-rate", "200", "--duration", "3", during=lambda run: _stop(run, 1.0))
    if seen.result and (value_of(seen.result, "schedule_delay.max") or 0) < 500:
        seen.troubles.append("the delay is not in the figures")
    return seen


for _stop_s in (0.2, 1.0):

    @fault(35, f"stopped-closed-{_stop_s:g}", f"the generator of a closed loop stands still for {_stop_s:g} s",
           "SIGSTOP, SIGCONT", Expected(fails=Kind.GENERATOR_PAUSE))  # fmt: skip
    def _stopped_closed(rig: Rig, stop_s: float = _stop_s) -> Seen:
        def stop(run: Run) -> None:
            time.sleep(AFTER_WARMUP_S)
            _stop(run, stop_s)

        return rig.answered("--duration", "4", during=stop)


@fault(33, "server-stopped", "the server stands still for a second", "SIGSTOP, SIGCONT of the golden server",
       Expected(codes=ANY, also=("timeout",)))  # fmt: skip
def _server_stopped(rig: Rig) -> Seen:
    with GoldenServer() as server:

        def stop(_: Run) -> None:
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(0.8)
            os.kill(server.pid, signal.SIGCONT)

        seen = rig.run(
            server.url,
            *("--request-rate", "100", "--duration", "3", "--request-timeout", "10"),
            received=lambda: len(server.requests()),
            loaded=lambda: len(server.requests()) > EVERY,
            during=stop,
        )
    if seen.result and (value_of(seen.result, "latency.max") or 0) < 400:
        seen.troubles.append("the stall is not in the latency")
    return seen


@fault(34, "shm", "another user's leftovers, and a live server's, in /dev/shm", "files of user 65534, a locked one",
       Expected(codes=ANY))  # fmt: skip
def _shm(rig: Rig) -> Seen:
    with tempfile.TemporaryDirectory():
        theirs = [SHARED_MEMORY / f"{PREFIX}system_1_0a0a", SHARED_MEMORY / "servemark_1_0a0a_region"]
        for path in theirs:
            path.touch()
            os.chown(path, 65534, 65534)
        try:
            with triton() as server:
                seen = rig.run(f"http://{server.http}", *IDENTITY[:2], "--shared-memory", "system")
            seen.troubles += [f"{path.name} is gone" for path in theirs if not path.exists()]
        finally:
            for path in theirs:
                path.unlink(missing_ok=True)
    seen.left += _regions(os.getpid())
    return seen


def _golden_run(rig: Rig) -> Seen:
    with server_of(get("ranking_tiny")) as server:
        return rig.run(server.url, command=SERVEMARK, received=lambda: len(server.requests()))


fault(0, "none", "nothing, `servemark run`", "golden server", Expected(codes=ANY))(_golden_run)
