"""A calibration: cases by load generators that take turns, and the document of it."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from loadgen.peers import Peer
from servemark.calibration.cases import Case
from servemark.calibration.measure import able, measure, serving, unseen_ms
from servemark.calibration.subject import SUBJECT
from servemark.calibration.verdict import calibrated, verdict
from servemark.campaign import Campaign, Turn, interleaved
from servemark.machine import idle_states, scheduling
from servemark.machine.cpu_time import CannotTell, Watch
from servemark.machine.scheduling import Priority
from servemark.output import note
from servemark.quantities import duration_text, figure
from servemark.results import directory as results
from servemark.results.schema.calibration import Calibration, CalibrationRow
from servemark.results.schema.header import campaign_opening
from servemark.stats.percentiles import percentile_key

MOST_S = 240
"""Of a calibration that is not full."""
FULL_ROUNDS = 3
_START_S = {"servemark": 3.0, "process-clock": 3.0, "locust": 2.5, "perf_analyzer": 1.0}
_SHORT_START_S = 0.3
"""Of a load generator; and of the server's process."""
_PROBE_S = 2.0


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


def calibrate(
    cases: Sequence[Case], meters: Sequence[Peer], out: Path, *, full: bool, resume: Path | None = None
) -> tuple[Path, Calibration]:
    """Measure all, or what the folder to `resume` lacks, and write the result after each row.

    A signal ends it with what there is, marked partial. Raises OptionError, ResultError, KeyboardInterrupt.
    """
    cases = [replace(case, load=case.load._replace(seconds=case.seconds(full=full))) for case in cases]
    rounds = FULL_ROUNDS if full else 1
    note(
        f"{len(cases)} cases with {', '.join(meter.name for meter in meters)}: "
        f"about {duration_text(planned_s(cases, meters, rounds))}"
    )
    directory = resume or results.new_directory(out, "calibration")
    document = begun(cases, meters, full=full, rounds=rounds)
    others = _others()

    def write(partial: str | None) -> None:
        document["golden"]["other_cpu_share"] = others()
        campaign.mark(document, partial)
        results.write(directory, judged(document, cases, meters))

    with Campaign(directory, document, write, resume=bool(resume)) as campaign, _awake() as awake:
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
        held = idle_states.hold_awake()
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        os.close(held)
