"""Two generator processes against one: how throughput grows with `locust --processes`, on a server that does nothing.

Generators and server share the machine's cores. With enough of them the ratio says how the generator scales; on 2 it
is bounded by what is left for the server, so that the CPU which each request takes is shown beside it: if that stays
the same, processes do not hinder each other.
"""

import os
import statistics

from benchmarks.rig import cpu_meter, locust_load
from benchmarks.rig.aims import Aim
from benchmarks.rig.load import Figures, Load
from benchmarks.rig.null_server import NullServer
from benchmarks.rig.pairs import alternate
from servemark.stats.ratios import ratio_of_pairs

AIM = Aim(least=1.7)
CORES = len(os.sched_getaffinity(0))
SERVERS = max(1, min(2, CORES - 2))
"""Processes of the null server: as many as the generators leave cores for."""
LOAD = Load(concurrency=64)


def processes(pairs: int, seconds: float) -> None:
    """Measure and print."""
    print(f"null server, HTTP, FP32[64], concurrency {LOAD.concurrency}: 2 processes against 1", flush=True)
    found, server_us = [], []
    for two, one in alternate(lambda: _run(2, seconds), lambda: _run(1, seconds), pairs):
        found.append((two[0], one[0]))
        server_us += [two[1], one[1]]
        shown = " against ".join(f"{each.requests_per_s:.0f} ({each.cpu_us:.1f} µs)" for each in found[-1])
        print(f"pair {len(found)}/{pairs}: requests/s (CPU of the generators for each) {shown}", flush=True)
    ratio = ratio_of_pairs([(two.requests_per_s, one.requests_per_s) for two, one in found])
    print(f"throughput ratio 2 processes / 1: {ratio}; {AIM.verdict(ratio.value)}")
    print(f"CPU for each request, ratio 2 processes / 1: {ratio_of_pairs([(t.cpu_us, o.cpu_us) for t, o in found])}")
    if CORES < 2 + SERVERS:
        one_us, null_us = statistics.median(one.cpu_us for _, one in found), statistics.median(server_us)
        most = CORES * one_us / (one_us + null_us)
        print(
            f"{CORES} cores hold 2 generators and the server: with {one_us:.1f} µs for a request in the generator and "
            f"{null_us:.1f} in the server, the ratio can be at most {most:.2f}"
        )


def _run(count: int, seconds: float) -> tuple[Figures, float]:
    """One run on a server of its own, and the server's CPU for each request in µs."""
    with NullServer(SERVERS) as server:
        answered = server.endpoints.counter(LOAD.model)
        before = cpu_meter.Reading(cpu_meter.used_s(server.pid), answered())
        figures = locust_load.measure(server.endpoints, LOAD, seconds, processes=count)
        after = cpu_meter.Reading(cpu_meter.used_s(server.pid), answered())
    return figures, cpu_meter.cpu_us(before, after)
