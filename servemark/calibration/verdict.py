"""Each load generator's errors in figures, and the verdict over servemark."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from loadgen.peers import Peer
from servemark.calibration.cases import Case
from servemark.errors import ExitCode
from servemark.machine.cpu_time import QUIET_SHARE
from servemark.results.schema.calibration import (
    CalibratedMeter,
    CalibrationOutcome,
    CalibrationRow,
    CalibrationVerdict,
    GoldenErrors,
)
from servemark.results.schema.header import figure_of

LIMIT_MS, LIMIT_SHARE, OFFSET_LIMIT_MS = 0.1, 0.01, 1.0
"""An error may be this large and this share of the truth; arrivals may be off by this."""
KS_LEAST = 0.001
FAILURES_TOLERANCE = 0.05
"""The last failures may come when a load generator has stopped counting."""


def calibrated(peer: Peer, cases: Sequence[Case], rows: Sequence[CalibrationRow]) -> CalibratedMeter:
    """The figures of one load generator, medians over the rounds."""
    mine = [row for row in rows if row["meter"] == peer.name]

    def median(shows: str, key: str) -> float | None:
        names = {case.name for case in cases if shows in {case.shows, case.name}}
        return _median([row for row in mine if row["case"] in names], key)

    errors = {where: max(abs(error) - LIMIT_SHARE * true, 0.0) for where, error, true in _errors(cases, mine)}
    worst = max(errors, key=lambda where: errors[where], default=None)
    floors = [row["reported_ms"] for row in mine if row["case"] == "floor" and row["reported_ms"]]
    reported, true = median("failures", "failures_reported"), median("failures", "failures_true")
    seen = [row["arrivals"] for row in mine if row["arrivals"]]
    found = CalibratedMeter(
        name=peer.name,
        paced=peer.paced,
        within_ms=None if worst is None else errors[worst],
        worst=worst,
        floor_ms=_median(floors, "p50"),
        step_ms=_step_ms([each for row in mine for each in row["reported_ms"].values() if each]),
        ceiling_per_s=median("ceiling", "requests_per_s"),
        server_bound=any(row["server_bound"] for row in mine if row["case"] == "ceiling"),
        failures_share=None if reported is None or not true else reported / true,
        offset_p99_ms=_median(seen, "offset_p99_ms"),
        ks_p=min((each["ks_p"] for each in seen if each["ks_p"] is not None), default=None),
        trusted=False,
        wrong=[],
    )
    found["wrong"] = list(_wrong(found, mine, cases))
    found["trusted"] = not found["wrong"]
    return found


def verdict(subject: CalibratedMeter, golden: GoldenErrors) -> CalibrationVerdict:
    """Judge servemark; where the machine itself is that unquiet nothing can be said of the meter."""
    within = f"{subject['within_ms'] or 0:.2f} ms + {LIMIT_SHARE:.0%}"
    outcome: CalibrationOutcome = "undecided"
    if subject["trusted"]:
        outcome, code, words = "trusted", ExitCode.VALID, f"percentiles are right within {within}"
    elif (golden["other_cpu_share"] or 0) > QUIET_SHARE:
        code = ExitCode.INVALID
        words = f"other work took {golden['other_cpu_share']:.0%} of the cores: stop that work, and run again"
    elif max(golden["unseen_p99_ms"], golden["late_p50_ms"] or 0) > LIMIT_MS:
        code = ExitCode.INVALID
        words = (
            f"this machine delays a client that only sends and waits by {golden['unseen_p99_ms']:.2f} ms at p99, so "
            f"errors of {LIMIT_MS} ms cannot be told: use a machine with more cores, or a real one"
        )
    else:
        outcome, code, words = "not trusted", ExitCode.SLO_MISSED, "; ".join(subject["wrong"])
    return {
        "outcome": outcome,
        "words": words,
        "limit_ms": LIMIT_MS,
        "limit_share": LIMIT_SHARE,
        "offset_limit_ms": OFFSET_LIMIT_MS,
        "exit_code": int(code),
    }


def _errors(cases: Sequence[Case], rows: Sequence[CalibrationRow]) -> Iterator[tuple[str, float, float]]:
    """Each judged percentile: where, the median error over the rounds, the median truth."""
    for case in cases:
        mine = [row for row in rows if row["case"] == case.name and row["error_ms"]] if case.judged else []
        for key in mine[0]["error_ms"] if mine else ():
            found = [(row["error_ms"][key], row["true_ms"][key]) for row in mine if row["error_ms"][key] is not None]
            if found:
                errors, truths = zip(*found, strict=True)
                yield f"{case.name} {key}", statistics.median(errors), statistics.median(truths)


def _wrong(found: CalibratedMeter, rows: Sequence[CalibrationRow], cases: Sequence[Case]) -> Iterator[str]:
    """Word what is beyond the limits."""
    if found["within_ms"] is None:
        yield "it reported no percentile"
    elif found["within_ms"] > LIMIT_MS:
        yield f"off by {found['within_ms']:.2f} ms + {LIMIT_SHARE:.0%} at {found['worst']}"
    if found["failures_share"] is not None and not math.isclose(found["failures_share"], 1, abs_tol=FAILURES_TOLERANCE):
        yield f"reported {found['failures_share']:.2f} times the failures"
    if (found["offset_p99_ms"] or 0) > OFFSET_LIMIT_MS:
        yield f"arrivals off by {found['offset_p99_ms']:.1f} ms"
    if found["ks_p"] is not None and found["ks_p"] < KS_LEAST:
        yield "arrivals are not Poisson"
    broke = {row["case"] for row in rows if row["able"] and not row["reported_ms"]}
    if broke & {case.name for case in cases if case.judged}:
        yield f"reported nothing of {', '.join(sorted(broke))}"


def _step_ms(reported_ms: Sequence[float]) -> float | None:
    """The coarsest decimal of ms that all figures are multiples of, 1 µs at the least."""
    steps = (1.0, 0.1, 0.01, 0.001)
    fits = (
        step for step in steps if all(math.isclose(ms / step, round(ms / step), abs_tol=1e-6) for ms in reported_ms)
    )
    return next(fits, steps[-1]) if reported_ms else None


def _median(groups: Sequence[Mapping[str, object]], key: str) -> float | None:
    """Return the median of a figure over the groups in which it is known."""
    found = [value for each in groups if (value := figure_of(each, key)) is not None]
    return statistics.median(found) if found else None
