"""Runs beside other work: how often they are VALID, and how wrong a VALID one is, by either clock.

python -m benchmarks.generator validity --rounds 17 --seconds 5     # 204 runs, about 30 minutes

The golden server answers after 5 ms, with real-time priority, and logs what is true. It listens on this machine's
loopback, or in a network namespace, which a load generator sees as another machine (root and `ip` are needed; without
them that part is left out and named).
"""

import contextlib
import http.client
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from servemark.calibration.golden.behaviour import Behaviour
from servemark.errors import ServemarkError
from servemark.figures.registry import value_of
from servemark.paths import CHECKOUT
from servemark.stats.percentiles import samples_needed

RATE, DELAY_S = 2200.0, 0.005
BUSY = (0, 1, 2)
CLOCKS = ("auto", "process")
PERCENTILES = (50.0, 99.0, 99.9)
ALLOWED_MS, ALLOWED_SHARE = 0.2, 0.02
NAMESPACE, NEAR, FAR = "servemark-golden", "10.253.77.1", "10.253.77.2"
_BURN = "while True: pass"
_IP = shutil.which("ip") or "/sbin/ip"


@dataclass(frozen=True)
class Cell:
    """Runs under one condition."""

    place: str
    busy: int
    clock: str


@dataclass(frozen=True)
class Run:
    """One run: whether its figures may be quoted, which constraints failed, and errors (ms) by stated percentile."""

    valid: bool
    failed: tuple[str, ...]
    errors_ms: dict[float, float]
    beyond_ms: float
    """Largest part of an error beyond 2 % of the truth."""


def validity(rounds: int, seconds: float) -> None:
    """Print a table; in each round every cell has its turn, so that drift hits all alike."""
    places = ["this machine"]
    if os.geteuid() == 0 and Path(_IP).exists():
        places.append("another machine")
    else:
        print("another machine: left out, it needs root and `ip`")
    cells = [Cell(place, busy, clock) for place in places for busy in BUSY for clock in CLOCKS]
    found: dict[Cell, list[Run]] = {cell: [] for cell in cells}
    with _namespace() if len(places) > 1 else contextlib.nullcontext():
        for number in range(rounds):
            for cell in cells if number % 2 else cells[::-1]:
                found[cell].append(_run(cell, seconds))
            print(f"round {number + 1}/{rounds}", file=sys.stderr, flush=True)
    print(f"{RATE:g} requests/s (Poisson) for {seconds:g} s, answered after {DELAY_S * 1e3:g} ms; {rounds} runs a row")
    print("worst error of a VALID run at p50, p99, p99.9 (ms); how many lie within 0.2 ms + 2 %")
    for cell, runs in found.items():
        valid = [run for run in runs if run.valid]
        worst = ", ".join(_worst(valid, percentile) for percentile in PERCENTILES)
        within = sum(run.beyond_ms <= ALLOWED_MS for run in valid)
        clock = "kernel" if cell.clock == "auto" else cell.clock
        print(
            f"server on {cell.place}, {cell.busy} busy loops, {clock}: {len(valid)} of {len(runs)} VALID; "
            f"{worst}; {within} of {len(valid)}"
        )
        reasons = [name for run in runs for name in run.failed]
        counts = {name: reasons.count(name) for name in dict.fromkeys(reasons)}
        print(f"  INVALID by: {', '.join(f'{name} {count}' for name, count in counts.items()) or 'nothing'}")


def _worst(runs: list[Run], percentile: float) -> str:
    errors = [run.errors_ms[percentile] for run in runs if percentile in run.errors_ms]
    stated = "" if len(errors) == len(runs) else f" (stated in {len(errors)} of {len(runs)})"
    return f"{max(errors, key=abs):+.3f}{stated}" if errors else "-"


def _run(cell: Cell, seconds: float) -> Run:
    with _golden(cell.place) as address, _loops(cell.busy), tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "servemark", "run", "golden", "--url", f"http://{address}", "--out", folder]
        command += ["--request-rate", f"{RATE:g}", "--warmup", "0", "--duration", f"{seconds:g}", "--json"]
        command += ["--receive-clock", cell.clock, "--cpu-latency-qos", "off"]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
        files = [*Path(folder).glob("*/result.json")]
        if not files:
            raise SystemExit(f"no result ({done.returncode}): {done.stderr[-500:]}")
        result = json.loads(files[0].read_text())
        times = json.loads(_asked(address, "/golden/times"))
    took_ms = np.sort(np.array(times["written_ns"], float) - np.array(times["arrival_ns"], float)) / 1e6
    errors, beyond = {}, 0.0
    for percentile in PERCENTILES:
        seen = value_of(result, f"latency.p{percentile:g}")
        if seen is not None and len(took_ms) >= samples_needed(percentile):
            true = float(took_ms[math.ceil(percentile / 100 * len(took_ms)) - 1])
            errors[percentile] = seen - true
            beyond = max(beyond, abs(seen - true) - ALLOWED_SHARE * true)
    verdict = result["verdict"]
    failed = tuple(each["name"] for each in verdict["constraints"] if not each["ok"])
    return Run(not failed, failed, errors, beyond)


@contextlib.contextmanager
def _golden(place: str) -> Iterator[str]:
    """Serve; gives host:port."""
    behaviour = json.dumps(asdict(Behaviour(delay_s=DELAY_S, realtime=True)))
    server = [sys.executable, "-m", "servemark.calibration.golden.server", "--config", behaviour]
    host = "127.0.0.1"
    if place != "this machine":
        host = FAR
        server = [_IP, "netns", "exec", NAMESPACE, *server, "--host", host]
    with subprocess.Popen(server, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise ServemarkError("the golden server did not start", fix="see what it printed above")
            yield f"{host}:{json.loads(line)['port']}"
        finally:
            process.terminate()


@contextlib.contextmanager
def _namespace() -> Iterator[None]:
    """Make a network namespace with one link to this one."""

    def ip(*words: str, check: bool = True) -> None:
        subprocess.run([_IP, *words], check=check, capture_output=not check)

    for left in (("netns", "del", NAMESPACE), ("link", "del", "smgold0")):  # of a run that was killed
        ip(*left, check=False)
    ip("netns", "add", NAMESPACE)
    try:
        ip("link", "add", "smgold0", "type", "veth", "peer", "name", "smgold1", "netns", NAMESPACE)
        ip("addr", "add", f"{NEAR}/24", "dev", "smgold0")
        ip("link", "set", "smgold0", "up")
        ip("-n", NAMESPACE, "addr", "add", f"{FAR}/24", "dev", "smgold1")
        ip("-n", NAMESPACE, "link", "set", "smgold1", "up")
        ip("-n", NAMESPACE, "link", "set", "lo", "up")
        yield
    finally:
        ip("netns", "del", NAMESPACE)


@contextlib.contextmanager
def _loops(count: int) -> Iterator[None]:
    """Compute beside the run."""
    loops = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def _asked(address: str, path: str) -> bytes:
    connection = http.client.HTTPConnection(address, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read()
