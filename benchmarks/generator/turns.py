"""Two checkouts' generators in turns of a fraction of a second: one is stopped (SIGSTOP) while the other runs.

A shared machine changes its speed by half from one second to the next, so that whole runs in turns need hours to tell
a difference of 3 %. Both generators here keep their connections to a server of their own that does nothing, and what a
turn is worth is the server's count of requests over the time of the turn.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generator.comparisons import COMPARISONS
from benchmarks.rig import locust_load
from benchmarks.rig.cpu_meter import FIRST_ANSWERS, START_WITHIN_S
from benchmarks.rig.load import Load
from benchmarks.rig.null_server import NullServer
from benchmarks.rig.pairs import alternate
from servemark.paths import CHECKOUT
from servemark.stats.ratios import ratio_of_pairs

TURN_S = 0.1
SETTLE_S = 2.0
"""After the first answers, as warm-up."""


@dataclass(frozen=True)
class Generator:
    """A generator that is stopped between its turns, with its own children (a process group)."""

    pid: int
    answered: Callable[[], int]

    def turn(self) -> tuple[float, float]:
        """Let it run; return requests/s and its CPU for each request (µs)."""
        before, used_ns, begin = self.answered(), self._cpu_ns(), time.perf_counter()
        os.killpg(self.pid, signal.SIGCONT)
        time.sleep(TURN_S)
        os.killpg(self.pid, signal.SIGSTOP)
        took_s = time.perf_counter() - begin
        requests = self.answered() - before
        if not requests:
            raise SystemExit("a generator sent nothing in its turn")
        return requests / took_s, (self._cpu_ns() - used_ns) / requests / 1000

    def _cpu_ns(self) -> int:
        return time.clock_gettime_ns(~self.pid << 3 | 2)  # clock_getcpuclockid(3)


@contextmanager
def stopped(load: Load, checkout: Path, seconds: float) -> Iterator[Generator]:
    """Start a checkout's generator for a run of `seconds`, and stop it once it has warmed up."""
    with tempfile.TemporaryDirectory() as folder, NullServer() as server:
        command = locust_load.command(server.endpoints, load, seconds, Path(folder), checkout)
        answered = server.endpoints.counter(load.model)
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            cwd=checkout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            until = time.monotonic() + START_WITHIN_S
            while answered() <= FIRST_ANSWERS:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"the generator of {checkout} did not start")
                time.sleep(0.05)
            time.sleep(SETTLE_S)
            os.killpg(process.pid, signal.SIGSTOP)
            yield Generator(process.pid, answered)
        finally:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def turns(rounds: int, seconds: float, baseline: Path | None = None) -> None:
    """Print the ratios of this checkout's generator to the baseline's, of `seconds` of turns of each in a round.

    Both are started anew in each round, because one process of the same code may be 5 % faster than the next.
    """
    if baseline is None:
        raise SystemExit("turns compares with another checkout: --baseline DIR")
    load = Load()
    print(f"{COMPARISONS['ceiling'].title}; turns of {TURN_S:g} s", flush=True)
    whole_s = 2 * (START_WITHIN_S + SETTLE_S) + 3 * seconds
    found = []
    for number in range(rounds):
        with stopped(load, CHECKOUT, whole_s) as ours, stopped(load, baseline, whole_s) as theirs:
            pairs = list(alternate(ours.turn, theirs.turn, round(seconds / TURN_S)))
        found.append([ratio_of_pairs([(a[place], b[place]) for a, b in pairs]).value for place in (0, 1)])
        rate, cpu = found[-1]
        print(f"round {number + 1}/{rounds}: {rate:.3f} of its requests/s, {cpu:.3f} of its CPU", flush=True)
    for place, name in enumerate(("requests_per_s", "cpu_us")):
        print(f"{name} ratio servemark / baseline: {ratio_of_pairs([(each[place], 1.0) for each in found])}")
