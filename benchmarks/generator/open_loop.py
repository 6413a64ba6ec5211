"""Poisson arrivals at half of the closed loop's maximum: is what was asked for sent, and when it was due."""

import itertools
import math
import statistics
from dataclasses import replace

from benchmarks.generator.comparisons import triton
from benchmarks.rig import locust_load, peer_load
from benchmarks.rig.aims import Aim, check
from benchmarks.rig.load import Figures, Load
from benchmarks.rig.pairs import alternate

SHARE = 0.5
ACHIEVED = Aim(least=0.99, most=1.01)
DELAY = Aim(most=1.0)


def open_loop(pairs: int, seconds: float) -> None:
    """Measure and print; the maximum is servemark's, over HTTP at concurrency 32."""
    with triton("identity") as at:
        maximum = locust_load.measure(at, Load(), seconds).requests_per_s
        load = Load(rate=float(round(SHARE * maximum)))
        print(f"HTTP, FP32[64], Poisson {load.rate:g} requests/s of a maximum of {maximum:.0f}", flush=True)
        found = []
        # Each run has a schedule of its own: seconds of a Poisson process have some percent more or fewer arrivals.
        schedules = itertools.count()
        for ours, theirs in alternate(
            lambda: locust_load.measure(at, replace(load, seed=next(schedules)), seconds),
            lambda: peer_load.measure("perf_analyzer", at, load, seconds),
            pairs,
        ):
            found.append((ours, theirs))
            print(f"pair {len(found)}/{pairs}: servemark {_shown(ours)}", flush=True)
            print(f"  perf_analyzer {_shown(theirs)}", flush=True)
    assert load.rate is not None
    achieved = [statistics.mean(each.requests_per_s for each in of) / load.rate for of in zip(*found, strict=True)]
    print(check("achieved / requested, servemark", achieved[0], ACHIEVED))
    print(check("achieved / requested, perf_analyzer", achieved[1]))
    delay = statistics.median(math.nan if ours.delay_p99_ms is None else ours.delay_p99_ms for ours, _ in found)
    print(check("schedule delay p99, servemark, median of the runs", delay, DELAY, "ms"))
    late = [statistics.mean(each.late_share or 0.0 for each in of) for of in zip(*found, strict=True)]
    print(check("sent more than 1 ms late, servemark", late[0], Aim(most=late[1]), "share"))
    print(check("delayed by its own count, perf_analyzer", late[1], unit="share"))


def _shown(figures: Figures) -> str:
    delay = "" if figures.delay_p99_ms is None else f", schedule delay p99 {figures.delay_p99_ms:.3f} ms"
    return f"{figures.requests_per_s:.1f} requests/s{delay}, late {figures.late_share:.2%}"
