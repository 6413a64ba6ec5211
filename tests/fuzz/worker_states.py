"""Messages of a worker to the master, as Locust's connection brings them: a run's report with all of its parts."""

import copy
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no stubs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loadgen.distributed.messages import merged
from loadgen.distributed.worker_view import WorkerView
from loadgen.measurement.windows import Traffic
from servemark.figures.latency import LATENCY
from servemark.results import directory as results
from servemark.workload.golden_check import GoldenCheck
from tests.fuzz.damage import ODD_VALUES, damaged, places
from tests.fuzz.target import Target
from tests.loadgen.distributed.test_messages import EXPECTED, INTERVAL, WARM_UP, honest

S = 1_000_000_000
_HONEST = honest()


def read_state(data: bytes) -> None:
    """Take a message as the master does, and all that it then does with one that was taken."""
    try:
        message = msgpack.loads(data, raw=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        return  # of this Locust's connection is told: test_locust_internals.py
    worker = WorkerView("a", 0)
    worker.on_message(message, S, EXPECTED)
    assert worker.dropped == (worker.trouble is not None and worker.failure is None)
    results.to_json(dict(worker.figures))
    if worker.report is None:
        return
    report = worker.report
    whole = merged(INTERVAL, [report["recorder"], _HONEST["recorder"]])
    assert whole.interval.end <= INTERVAL.end
    for histogram in (whole.latency, whole.schedule_delay.without(whole.waited_delay)):
        results.to_json(LATENCY.values(histogram))
    Traffic.of_workers([report["traffic"]], None)
    if report["warm_up"]:
        WARM_UP.merge([report["warm_up"]])
    if report["checked"]:
        GoldenCheck.joined([GoldenCheck(**report["checked"]), GoldenCheck(**_HONEST["checked"])])


@st.composite
def _changed(draw: DrawFn) -> bytes:
    """A report of which up to three values are others, or are missing."""
    message: Any = copy.deepcopy(_HONEST)
    for _ in range(draw(st.integers(0, 3))):
        if not (found := places(message)):
            break
        *way, last = draw(st.sampled_from(found))
        parent = message
        for key in way:
            parent = parent[key]
        if draw(st.booleans()):
            parent[last] = draw(ODD_VALUES | st.binary(max_size=9))
        else:
            del parent[last]
    try:
        packed: bytes = msgpack.dumps(message)
    except (OverflowError, UnicodeEncodeError):  # what the wire cannot bring
        packed = msgpack.dumps(None)
    return packed


TARGETS = (Target("worker_states", _changed() | damaged(_changed()), read_state, examples=60),)
