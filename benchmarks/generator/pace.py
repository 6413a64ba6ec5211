"""Latency at one in flight by the client's pause between an answer and the next request, beside servemark and wrk.

A server that rests between requests wakes up more slowly, so a client that takes longer between them measures longer
latencies, however right its clock is. A loop of nothing but `send` and `recv` shows by how much, with pauses of 0 to
80 µs in turns.
"""

import socket
import statistics
import time
from functools import partial

from benchmarks.generator.comparisons import COMPARISONS, OURS
from benchmarks.rig import locust_load, peer_load
from benchmarks.rig.load import Figures
from benchmarks.rig.pairs import Side, rounds
from servemark.stats.ratios import ratio_of_pairs

PAUSES_US = (0, 20, 50, 80)
ANSWER_BYTES = 1 << 16


def pace(pairs: int, seconds: float) -> None:
    """Measure in turns; print the median of p50 and its ratio to that of the loop without a pause."""
    comparison = COMPARISONS["latency"]
    with comparison.serve(comparison.load.model) as at:
        request = peer_load.peer_load(at, comparison.load, seconds).request
        sides: dict[str, Side] = {
            f"pause {us} µs": partial(_loop, at.of(comparison.load), request, seconds, us) for us in PAUSES_US
        }
        sides[OURS] = partial(locust_load.measure, at, comparison.load, seconds)
        for peer in comparison.able(["wrk"]):
            sides[peer] = partial(peer_load.measure, peer, at, comparison.load, seconds)
        found = rounds(sides, pairs)
    first = found[f"pause {PAUSES_US[0]} µs"]
    for name, figures in found.items():
        ratio = ratio_of_pairs([(each.p50_ms, least.p50_ms) for each, least in zip(figures, first, strict=True)])
        p50_ms = statistics.median(each.p50_ms for each in figures)
        print(f"{name}: p50 {p50_ms:.3f} ms, ratio to no pause {ratio}")


def _loop(address: str, request: bytes, seconds: float, pause_us: int) -> Figures:
    """Send one request after another over one connection; each answer comes in one piece."""
    host, _, port = address.rpartition(":")
    taken_ns: list[int] = []
    clock, used_s = time.perf_counter_ns, time.process_time()
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = clock() + int(seconds * 1e9)
        while (sent := clock()) < end:
            connection.sendall(request)
            if not connection.recv(ANSWER_BYTES).startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{address} refused a request")
            done = clock()
            taken_ns.append(done - sent)
            while clock() < done + 1000 * pause_us:
                pass
    cpu_us = 1e6 * (time.process_time() - used_s) / len(taken_ns)
    return Figures(len(taken_ns) / seconds, statistics.median(taken_ns) / 1e6, cpu_us)
