"""The truth about a run by the golden server's log, beside what a load generator reported."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.peers import PeerFigures
from servemark.calibration.cases import Case
from servemark.calibration.subject import PERCENTILES
from servemark.results.schema.calibration import ArrivalsSeen, CalibrationRow, Figures
from servemark.stats.percentiles import percentile_key

NS_PER_MS = 1e6
_LONE_GAPS = 3
"""A first request that is farther than so many gaps from the second asked how the server is."""
Times = npt.NDArray[np.float64]


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
