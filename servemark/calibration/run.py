"""A calibration: cases by load generators that take turns, and the document of it with the verdict over servemark."""

import contextlib
import functools
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loadgen.peers.programs import Peer
from servemark.calibration.cases import Case
from servemark.calibration.measure import SUBJECT, able, measure, serving, unseen_ms
from servemark.campaign import Campaign, Turn, interleaved
from servemark.documents.commands.understand import Calibrate
from servemark.errors import ExitCode
from servemark.machine import scheduling
from servemark.machine.cpu_time import QUIET_SHARE, CannotTell, Watch
from servemark.machine.scheduling import Priority
from servemark.output import note
from servemark.paths import resumed
from servemark.quantities import duration_text, figure
from servemark.results import directory as results
from servemark.results.schema.calibration import (
    CalibratedMeter,
    Calibration,
    CalibrationOutcome,
    CalibrationRow,
    CalibrationVerdict,
    GoldenErrors,
)
from servemark.results.schema.header import campaign_opening, figure_of
from servemark.stats.percentiles import percentile_key

LIMIT_MS, LIMIT_SHARE, OFFSET_LIMIT_MS = 0.1, 0.01, 1.0
"""An error may be this large and this share of the truth; arrivals may be off by this."""
KS_LEAST = 0.001
FAILURES_TOLERANCE = 0.05
"""The last failures may come when a load generator has stopped counting."""
MOST_S = 240
"""Of a calibration that is not full."""
FULL_ROUNDS = 3
_START_S = {"servemark": 3.0, "process-clock": 3.0, "locust": 2.5, "perf_analyzer": 1.0}
_SHORT_START_S = 0.3
"""Of a load generator; and of the server's process."""
_PROBE_S = 2.0


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


def cost_s(case: Case, meter: Peer) -> float:
    """Seconds that a load generator takes in a case."""
    return case.load.seconds + _START_S.get(meter.name, _SHORT_START_S) if able(case, meter) else 0.0


def planned_s(cases: Sequence[Case], meters: Sequence[Peer], rounds: int) -> float:
    """Seconds that it takes."""
    times = (cost_s(case, meter) for case in cases for meter in meters)
    return _PROBE_S + rounds * (len(cases) * _SHORT_START_S + sum(times))


def in_time(cases: Sequence[Case], meters: Sequence[Peer]) -> list[Peer]:
    """Take the first of the load generators, as many as there is time for."""
    return [
        meter for number, meter in enumerate(meters, 1) if number == 1 or planned_s(cases, meters[:number], 1) <= MOST_S
    ]


def calibrate(options: Calibrate, cases: Sequence[Case], meters: Sequence[Peer]) -> tuple[Path, Calibration]:
    """Measure all, or what the folder to resume lacks, and write the result after each row.

    A signal ends it with what there is, marked partial. Raises OptionError, ResultError, KeyboardInterrupt.
    """
    full, rounds = options.full, FULL_ROUNDS if options.full else 1
    if full:
        cases = [replace(case, load=case.load._replace(seconds=case.full_s)) for case in cases]
    note(
        f"{len(cases)} cases with {', '.join(meter.name for meter in meters)}: "
        f"about {duration_text(planned_s(cases, meters, rounds))}"
    )
    directory = resumed(options.resume) or results.new_directory(options.out, "calibration")
    document = begun(cases, meters, full=full, rounds=rounds)
    others = _others()

    def write(partial: str | None) -> None:
        document["golden"]["other_cpu_share"] = others()
        campaign.mark(document, partial)
        results.write(directory, judged(document, cases, meters))

    with Campaign(directory, document, write, resume=bool(options.resume)) as campaign, _awake() as awake:
        document["golden"]["cores_awake"] = awake
        document["golden"]["unseen_p50_ms"], document["golden"]["unseen_p99_ms"] = unseen_ms()
        campaign.expect(cost_s(case, meter) for _ in range(rounds) for case in cases for meter in meters)
        for number, case in [(number, case) for number in range(1, rounds + 1) for case in cases]:
            with serving(case) as server:
                turns = [
                    Turn(
                        f"round {number}, {case.name}: {meter.name}",
                        functools.partial(measure, case, meter, number, server),
                        cost_s(case, meter),
                    )
                    for meter in interleaved(meters, number)
                ]
                for _, row in campaign.turns(turns, CalibrationRow, _line):
                    document["rows"].append(row)
    return directory, document


def _line(row: CalibrationRow) -> str:
    if "reason" in row:
        return row["reason"]
    reported, true = row["reported_ms"].get("p50"), row["true_ms"].get("p50")
    return f"p50 {figure(reported)} ms, in truth {figure(true)} ms"


def begun(cases: Sequence[Case], meters: Sequence[Peer], *, full: bool, rounds: int) -> Calibration:
    """Make the document, with nothing measured."""
    return {
        **campaign_opening(),
        "kind": "calibration",
        "full": full,
        "rounds": rounds,
        "golden": {
            "realtime": scheduling.refusal(Priority.REALTIME) is None,
            "cores_awake": False,
            "other_cpu_share": None,
            "late_p50_ms": None,
            "unseen_p50_ms": 0.0,
            "unseen_p99_ms": 0.0,
        },
        "cases": [
            {
                "name": case.name,
                "title": case.title,
                "seconds": case.load.seconds,
                "judged": case.judged,
                "theory_ms": {percentile_key(p): each for p, each in case.theory_ms.items()},
            }
            for case in cases
        ],
        "meters": [calibrated(meter, cases, ()) for meter in meters],
        "rows": [],
        "verdict": None,
    }


def judged(document: Calibration, cases: Sequence[Case], meters: Sequence[Peer]) -> Calibration:
    """Bring figures and verdict up to what has been measured."""
    rows, golden = document["rows"], document["golden"]
    names = {case.name for case in cases if case.judged}
    late = sorted(r["server_late_p99_ms"] for r in rows if r["case"] in names and r["server_late_p99_ms"] is not None)
    golden["late_p50_ms"] = late[len(late) // 2] if late else None
    document["meters"] = [calibrated(meter, cases, rows) for meter in meters]
    subject = document["meters"][0]
    document["verdict"] = verdict(subject, golden) if rows and subject["name"] == SUBJECT else None
    return document


def _others() -> Callable[[], float | None]:
    """Return a function that says which share of the cores other work has taken since now."""
    try:
        watch = Watch({"calibration": [os.getpid()]})
        watch.use()
    except CannotTell:
        return lambda: None
    return lambda: watch.use().other_cpu_share


@contextlib.contextmanager
def _awake() -> Iterator[bool]:
    """Keep cores out of idle states where that is permitted, for every load generator alike."""
    try:
        held = scheduling.hold_awake()
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        os.close(held)
