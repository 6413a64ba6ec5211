"""One load generator in one case: its figures beside the truth by the golden server's log, and what no log can see."""

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import psutil

from loadgen.kserve.http_messages import encode_request
from loadgen.peers.programs import PEERS, Peer, PeerError, PeerFigures, PeerLoad, PerfAnalyzer
from servemark import interrupts
from servemark.calibration.cases import CASES, PACED_IN_FLIGHT, Case
from servemark.calibration.golden.behaviour import Behaviour
from servemark.calibration.golden.connection import WIDTH
from servemark.calibration.golden.server import GoldenServer
from servemark.documents.request import PROCESS_CLOCK
from servemark.figures.registry import count_of, value_of
from servemark.results.schema.calibration import ArrivalsSeen, CalibrationRow, Figures
from servemark.runs.locust_process import stopping
from servemark.stats.percentiles import percentile_key
from servemark.workload import Tensor

PERCENTILES = (50, 90, 95, 99)
SUBJECT, BY_PROCESS = "servemark", "process-clock"
OWN = (SUBJECT, BY_PROCESS)
"""Those that are always measured."""
NS_PER_MS = 1e6
_LONE_GAPS = 3
"""A first request that is farther than so many gaps from the second asked how the server is."""
Times = npt.NDArray[np.float64]
END_WITHIN_S = 240.0
_PROBES, _PROBE_GAP_S = 400, 0.002
_THIEF = """
import signal
from servemark.interrupts import end_with_parent
end_with_parent(signal.SIGKILL)
while True:
    pass
"""


class Servemark(Peer):
    """Closed and open loop. Its warm-up is left out, so that it reports of what the server logs."""

    name: ClassVar[str] = SUBJECT
    install: ClassVar[str] = ""

    @property
    def program(self) -> str | None:
        """Return this Python."""
        return sys.executable

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        command = [str(self.program), "-m", "servemark", "run", load.model, "--url", load.url, "--out", str(folder)]
        # Cores are as awake for it as for the others: a calibration sees to that.
        command += ["--warmup", "0", "--duration", f"{load.duration_s:g}", "--cpu-latency-qos", "off", "--json"]
        if load.rate is None:
            return [*command, "--concurrency", str(load.in_flight)]
        gaps = "poisson" if load.poisson else "constant"
        return [*command, "--request-rate", f"{load.rate:g}", "--request-distribution", gaps]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        [file] = folder.glob("*/result.json")
        result = json.loads(file.read_text())
        # The others report of answered requests alone.
        found = {each: value_of(result, f"answered_latency.p{each:g}") for each in PERCENTILES}
        known: dict[float, float] = {each: ms for each, ms in found.items() if ms is not None}
        rate = value_of(result, "throughput.requests") or 0.0
        return PeerFigures(rate, known, count_of(result, "errors.count"))


class ByProcess(Servemark):
    """servemark without the kernel's stamps: an answer came when the process read it, as with other load generators."""

    name: ClassVar[str] = BY_PROCESS

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        return [*super().command(load, folder), "--receive-clock", PROCESS_CLOCK]


METERS: dict[str, Peer] = {peer.name: peer for peer in (Servemark(), ByProcess(), *PEERS.values())}
"""All that are known, servemark first."""


def row(case: Case, meter: str, number: int, *, able: bool = True) -> CalibrationRow:
    """A row without figures."""
    return {
        "case": case.name,
        "meter": meter,
        "round": number,
        "able": able,
        "requests": None,
        "requests_per_s": None,
        "server_bound": None,
        "reported_ms": {},
        "true_ms": {},
        "error_ms": {},
        "server_late_p99_ms": None,
        "failures_reported": None,
        "failures_true": None,
        "arrivals": None,
    }


def compare(
    case: Case, meter: str, number: int, reported: PeerFigures, log: Mapping[str, list[Any]], server_cpu_s: float
) -> CalibrationRow:
    """Hold a report against the log. Raises ValueError where nothing came."""
    arrival_ns = np.array(log["arrival_ns"], np.float64)
    if len(arrival_ns) < 2:
        raise ValueError(f"{len(arrival_ns)} requests came")
    written = np.array([math.nan if each is None else each for each in log["written_ns"]], np.float64)
    answered = ~np.isnan(written)
    span_s = float(np.ptp(arrival_ns)) / 1e9
    truth = _scheduled_ms(case, arrival_ns) if case.scheduled else (written - arrival_ns)[answered] / NS_PER_MS
    # The stall's p90 lies on its edge, where one request more or less makes it jump: theory leaves it out.
    ranks = [*case.theory_ms] if case.scheduled else PERCENTILES
    true = {percentile_key(p): percentile(truth, p) for p in ranks}
    reported_ms: Figures = {percentile_key(p): reported.percentiles_ms.get(p) for p in ranks}
    errors: Figures = {key: None if each is None else each - true[key] for key, each in reported_ms.items()}
    return {
        **row(case, meter, number),
        "requests": len(arrival_ns),
        "requests_per_s": (len(arrival_ns) - 1) / span_s,
        "server_bound": server_cpu_s > 0.9 * span_s,
        "reported_ms": reported_ms,
        "true_ms": {**true},
        "error_ms": errors,
        "server_late_p99_ms": percentile((written - np.array(log["due_ns"], np.float64))[answered] / NS_PER_MS, 99),
        "failures_reported": reported.failed,
        "failures_true": log["kind"].count("reset"),
        "arrivals": _arrivals(case, np.sort(arrival_ns)) if case.load.arrivals else None,
    }


def percentile(values: Times, rank: float) -> float:
    """By nearest rank, as all reports have it."""
    return float(np.percentile(values, rank, method="inverted_cdf"))


def _scheduled_ms(case: Case, arrival_ns: Times) -> Times:
    """Latencies that the schedule would have had on this server, from when the first request came."""
    first_ns = int(arrival_ns[0])
    begin_ns = int(_without_lone(np.sort(arrival_ns), case)[0])
    due = (begin_ns + round(index * 1e9 / case.load.rate) for index in range(case.load.rate * case.load.seconds))
    return np.array([case.behaviour.after_stall_ns(each, first_ns) - each for each in due]) / NS_PER_MS


def _without_lone(arrival_ns: Times, case: Case) -> Times:
    lone = np.diff(arrival_ns[:2]) * case.load.rate > _LONE_GAPS * 1e9
    return arrival_ns[1:] if lone else arrival_ns


def _arrivals(case: Case, arrival_ns: Times) -> ArrivalsSeen:
    """Arrivals in order of time beside their schedule, which begins so that half of them are early."""
    came, asked = _without_lone(arrival_ns, case), case.load.rate
    found = ArrivalsSeen(
        asked_rate=asked,
        rate=(len(came) - 1) / float(np.ptp(came)) * 1e9,
        offset_p50_ms=None,
        offset_p99_ms=None,
        ks_distance=None,
        ks_p=None,
    )
    if case.load.arrivals == "constant":
        offsets = came - np.arange(len(came)) * 1e9 / asked
        offsets = np.abs(offsets - np.median(offsets)) / NS_PER_MS
        found["offset_p50_ms"], found["offset_p99_ms"] = percentile(offsets, 50), percentile(offsets, 99)
    else:
        from scipy.stats import kstest

        test = kstest(np.diff(came) * asked / 1e9, "expon")
        found["ks_distance"], found["ks_p"] = float(test.statistic), float(test.pvalue)
    return found


@contextlib.contextmanager
def serving(case: Case) -> Iterator[GoldenServer]:
    """A case's server, and the work beside it."""
    # A server that takes all of a core is not for real time: Linux would stop it for 50 ms in each second.
    with GoldenServer(replace(case.behaviour, realtime=case.shows != "ceiling")) as server, _thieves(case.thieves):
        yield server


def measure(case: Case, peer: Peer, number: int, server: GoldenServer) -> CalibrationRow:
    """Run a load generator against a case's server. What it cannot do, or fails in, is a row with the reason."""
    if isinstance(peer, PerfAnalyzer) and case.load.rate:
        # Its windows must be alike, which those of a stall are not: one window of all requests.
        peer = replace(peer, more=("--request-count", str(case.load.rate * case.load.seconds)))
    server.reset()
    used_s = _cpu_s(server)
    try:
        reported = peer.measure(load(case, peer, server), _run)
    except PeerError as error:
        first, *_, last = [*error.what.splitlines()] * 2
        words = first if first == last else f"{first} {last.strip()}"
        return {**row(case, peer.name, number, able=able(case, peer)), "reason": words}
    try:
        return compare(case, peer.name, number, reported, server.times(), _cpu_s(server) - used_s)
    except ValueError as error:
        return {**row(case, peer.name, number), "reason": str(error)}


def able(case: Case, peer: Peer) -> bool:
    """Return True if a load generator can make the load of a case."""
    asked = PeerLoad("http://127.0.0.1", "", b"", 1, 1, case.load.rate or None, poisson=case.load.arrivals == "poisson")
    return peer.refusal(asked) is None


def load(case: Case, peer: Peer, server: GoldenServer) -> PeerLoad:
    """The case's load as a generator is told it; one whose rate only slows its users gets as many as make it."""
    model = server.behaviour.model
    inputs, outputs = {"INPUT0": np.zeros((1, WIDTH), np.float32)}, [Tensor("OUTPUT0", "FP32", (WIDTH,))]
    return PeerLoad(
        server.url,
        model,
        encode_request(server.address, model, inputs, outputs, {"INPUT0": "FP32"}),
        PACED_IN_FLIGHT if peer.paced and case.load.rate else case.load.in_flight,
        case.load.seconds,
        case.load.rate or None,
        poisson=case.load.arrivals == "poisson",
    )


def _run(command: Sequence[str]) -> str:
    """Run a generator to its end; what it printed. Raises PeerError."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        with stopping([process]):
            try:
                interrupts.wait(process, END_WITHIN_S)
            except subprocess.TimeoutExpired:
                raise PeerError(f"{Path(command[0]).name} did not end within {END_WITHIN_S:g} s") from None
        said.seek(0)
        return said.read()


def _cpu_s(server: GoldenServer) -> float:
    return sum(psutil.Process(server.pid).cpu_times()[:2])


def unseen_ms() -> tuple[float, float]:
    """Ways to the server and back that lie outside its log, by a client that only sends and waits: p50 and p99."""
    took = []
    with GoldenServer(Behaviour(realtime=True)) as server:
        request = load(CASES[0], METERS[SUBJECT], server).request
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(_PROBES):
                begin_ns = time.monotonic_ns()
                client.sendall(request)
                client.recv(1 << 16)
                took.append(time.monotonic_ns() - begin_ns)
                interrupts.sleep(_PROBE_GAP_S)
        log = server.times()
    unseen = (np.array(took) - np.array(log["written_ns"]) + np.array(log["arrival_ns"])) / NS_PER_MS
    return percentile(unseen, 50), percentile(unseen, 99)


@contextlib.contextmanager
def _thieves(wanted: bool) -> Iterator[None]:
    """Compute on every core meanwhile."""
    with interrupts.held_back():
        found = [subprocess.Popen([sys.executable, "-c", _THIEF]) for _ in range(len(os.sched_getaffinity(0)) * wanted)]
    try:
        yield
    finally:
        for each in found:
            each.kill()
            each.wait()
