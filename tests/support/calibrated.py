"""A calibration of two load generators, made up: what the golden server would have logged, and what they reported."""

from typing import Any

import numpy as np

from loadgen.peers.programs import PEERS, PeerFigures
from servemark.calibration.cases import CASES, Case
from servemark.calibration.measure import METERS, SUBJECT, compare, row
from servemark.calibration.run import begun, judged
from servemark.results.schema.calibration import Calibration

MS = 1_000_000
NAMED = {case.name: case for case in CASES}


def log(arrival_ms: Any, took_ms: Any, resets: int = 0) -> dict[str, list[Any]]:
    """Return the golden server's columns; the last requests were reset."""
    arrival = (np.asarray(arrival_ms, float) * MS).tolist()
    took = np.broadcast_to(np.asarray(took_ms, float) * MS, len(arrival)).tolist()
    good = len(arrival) - resets
    written = [a + t for a, t in zip(arrival, took, strict=True)][:good] + [None] * resets
    due = [each or 0 for each in written]
    kinds = ["ok"] * good + ["reset"] * resets
    return {"arrival_ns": arrival, "due_ns": due, "written_ns": written, "kind": kinds}


def stalled() -> dict[str, list[Any]]:
    """The log of 1,000 requests on their schedule, of which a hundred came in the stall."""
    case, arrival = NAMED["stall"], np.arange(1000) * 10.0
    due = [case.behaviour.after_stall_ns(round(at * MS), 0) / MS - at for at in arrival]
    return log(arrival, due)


def document(error_ms: float = 0.05, other: float = 0.01) -> Calibration:
    """servemark off by so much everywhere; wrk a millisecond, and without an open loop."""
    meters, cases = [METERS[SUBJECT], PEERS["wrk"]], [NAMED[name] for name in ("floor", "constant", "resets", "stall")]
    found = begun(cases, meters, full=False, rounds=1)
    found["golden"] |= {"other_cpu_share": other, "unseen_p50_ms": 0.03, "unseen_p99_ms": 0.06}
    for case in cases:
        for meter, off in ((SUBJECT, error_ms), ("wrk", 1.0)):
            found["rows"].append(_row(case, meter, off))
    found["partial"] = False
    return judged(found, cases, meters)


def _row(case: Case, meter: str, off: float) -> Any:
    if case.name == "stall":
        if meter == "wrk":
            return {**row(case, meter, 1, able=False), "reason": "wrk: it has no open loop"}
        late: dict[float, float] = {50: off, 90: off, 95: 495 + off, 99: 895 + off}
        return compare(case, meter, 1, PeerFigures(100, late, 0), stalled(), 0.1)
    resets = 10 if case.name == "resets" else 0
    came = log(np.arange(500) * 2.0, 5.0, resets)
    reported = dict.fromkeys((50.0, 90.0, 95.0, 99.0), 5.0 + off)
    return compare(case, meter, 1, PeerFigures(500, reported, resets * (1 if meter == SUBJECT else 3)), came, 0.1)
