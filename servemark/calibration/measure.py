"""One load generator in one case, and what the golden server's log cannot see."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil

from loadgen.peers import Peer, PeerLoad
from loadgen.peers.peer import PeerError
from loadgen.peers.perf_analyzer import PerfAnalyzer
from servemark import interrupts
from servemark.calibration.cases import CASES, PACED_IN_FLIGHT, Case
from servemark.calibration.golden.behaviour import Behaviour
from servemark.calibration.golden.server import GoldenServer
from servemark.calibration.golden.service import WIDTH
from servemark.calibration.subject import METERS, SUBJECT
from servemark.calibration.truth import NS_PER_MS, compare, percentile, row
from servemark.results.schema.calibration import CalibrationRow
from servemark.runs.locust_process import stopping

END_WITHIN_S = 240.0
_PROBES, _PROBE_GAP_S = 400, 0.002
_THIEF = """
import signal
from servemark.interrupts import end_with_parent
end_with_parent(signal.SIGKILL)
while True:
    pass
"""


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
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, WIDTH]}
    inputs = [{**tensor, "parameters": {"binary_data_size": 4 * WIDTH}}]
    asked = [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]
    header = json.dumps({"inputs": inputs, "outputs": asked}).encode()
    body = header + bytes(4 * WIDTH)
    model = server.behaviour.model
    fields = {
        "Host": server.address,
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": len(header),
        "Content-Length": len(body),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return PeerLoad(
        server.url,
        model,
        f"POST /v2/models/{model}/infer HTTP/1.1\r\n{head}\r\n".encode() + body,
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
