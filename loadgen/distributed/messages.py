"""Messages between master and workers during a run, over Locust's own connection.

| from | kind | meaning |
|---|---|---|
| worker | join | it asks with a `token` for its part, until it has it |
| master | prepare | to that token: it is worker `index` of `of` in `run`; the request, and the server's address |
| worker | ready, failed | the requests are made and connections open; or why not |
| master | ping | answered with `pong` at once, to estimate the worker's clock |
| master | begin | the schedule begins at `start_ns` of the worker's clock |
| master | measure | the warm-up was long enough: the measured interval begins at `start_ns` of the worker's clock |
| master | end | the interval of a closed loop ends `length_ns` after its start |
| worker | state | all that was recorded so far; `final` once every request has its outcome |
| master | stop | send nothing more, and say what was measured |

A worker may be a foreign program on another host, so no field of its messages is trusted (`check_message`). One that
passes can be counted without an error. One that does not costs its worker's share, and not the run.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from loadgen.driver.observers import MAX_KINDS, MAX_MESSAGES, MAX_WORDS, Failures
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.recorder import Recorder, S
from loadgen.measurement.windows import Interval, Window
from loadgen.sut.kernel_clock import KernelClock
from servemark import __version__
from servemark.errors import ExitCode
from servemark.machine.scheduling import Priority
from servemark.repository.entry import Golden
from servemark.results.constraints import MAX_PROLONGED_WINDOWS
from servemark.stats.histogram import Histogram
from servemark.workload.agreement import COLUMNS

MESSAGE = "servemark"
"""Locust's name for all of these messages."""
STATE_EVERY_S = 1.0
UNDECIDED_EVERY_S = 0.2
"""Interval of the reports while the master decides on the end of the warm-up or of a closed loop's interval."""

Message = Mapping[str, Any]
Send = Callable[[dict[str, Any]], None]


def fingerprint(config: LoadConfig, schedule: npt.NDArray[np.int64] | None, golden: Golden | None) -> dict[str, str]:
    """Digest the facts that must be equal in every process for the shares to form one load, by users' names."""
    parts = {"version of servemark": __version__}
    if golden:
        parts["golden outputs (another export, or another file)"] = _digest(repr(golden.digests).encode())
    if config.workload.served:
        tensors = config.workload.inputs, config.workload.outputs, config.workload.max_batch
        parts["model (its server says other tensors)"] = _digest(repr(tensors).encode())
    if schedule is not None:
        parts["schedule (another version of numpy, or another trace file)"] = _digest(schedule.tobytes())
    return parts


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


State = Mapping[str, Any]

HISTOGRAMS = ("latency", "service_time", "schedule_delay", "waited_delay")
COUNTS = ("answered", "late", "completed", "scheduled", "unsent", "outside", "in_flight_at_start")


def state_of(recorder: Recorder, *, final: bool = True) -> dict[str, Any]:
    """Return everything but the sampled answers, in a form for msgpack. Times are from the interval's start, in ns.

    A trace's seconds grow with its length: they come at the end only.
    """
    interval = recorder.interval
    return {
        "length_ns": interval.end - interval.start,
        **{name: getattr(recorder, name).pack() for name in HISTOGRAMS},
        **{name: getattr(recorder, name) for name in COUNTS},
        "longest_pause_ns": recorder.longest_pause_ns,
        "clock": recorder.clock.pack() if recorder.clock is not None else None,
        "windows": [[w.latency.pack(), w.completed, w.scheduled, w.errors] for w in recorder.windows],
        "seconds": recorder.seconds.pack() if final and recorder.seconds is not None else None,
        "errors": dict(recorder.errors),
        "messages": recorder.messages,
    }


def merged(interval: Interval, states: Sequence[State]) -> Recorder:
    """Merge the records of several processes into one recorder: counts are added, percentiles never averaged.

    `interval` is the one that was to be measured; a closed loop's that was prolonged counts as long as the longest.
    """
    for state in states:
        while interval.end - interval.start < state["length_ns"]:
            interval = interval.prolonged
    recorder, failures = Recorder(interval), Failures()
    for state in states:
        for name in HISTOGRAMS:
            getattr(recorder, name).merge(Histogram.unpack(state[name]))
        for name in COUNTS:
            setattr(recorder, name, getattr(recorder, name) + state[name])
        recorder.longest_pause_ns = max(recorder.longest_pause_ns, state["longest_pause_ns"])
        if state["clock"] is not None:
            recorder.clock = recorder.clock or KernelClock()
            recorder.clock.add(state["clock"])
        for kind, count in state["errors"].items():
            recorder.errors[failures.kind(kind)] += count
        for kind, said in state["messages"].items():
            known = recorder.messages.setdefault(failures.kind(kind), [])
            known += [message for message in said if message not in known][: MAX_MESSAGES - len(known)]
        for window, other in zip(recorder.windows, _windows(state, interval), strict=False):
            window.add(other)
        if recorder.seconds is not None and state["seconds"] is not None:
            recorder.seconds.add(state["seconds"])
    return recorder


def _windows(state: State, interval: Interval) -> list[Window]:
    """Unpack a state's windows, with the interval's lengths; a state may lack the last ones."""
    windows = [Window(Histogram.unpack(packed), *counts) for packed, *counts in state["windows"]]
    length_ns = state["length_ns"] / len(windows)
    # Prolonging joins neighbours, so that windows are longer by a power of two.
    for _ in range(round(interval.window_ns / length_ns).bit_length() - 1):
        windows = Window.paired(windows)
    return windows


MAX_COUNT = 1 << 53
"""The largest number of requests, or of ns (104 days), that a sum of several workers' holds exactly."""
MAX_CLOCK_NS = 1 << 62
MAX_NAME = 255
MAX_REASON = 20_000
MAX_STATE_KINDS = 2 * MAX_KINDS
"""Kinds of failure: those whose names hold a number, and those that servemark itself has."""
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Clock = Annotated[int, Meta(ge=0, le=MAX_CLOCK_NS)]
Since = Annotated[int, Meta(gt=-MAX_COUNT, lt=MAX_COUNT)]
Sum = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Word = Annotated[str, Meta(max_length=MAX_NAME)]
Words = Annotated[str, Meta(max_length=MAX_REASON)]
Said = Annotated[list[Annotated[str, Meta(max_length=6 * MAX_WORDS)]], Meta(max_length=MAX_MESSAGES)]
Packed = tuple[bytes, bytes, Count, Count, Clock, Clock, Sum, Sum]
"""Of a histogram: see `Histogram.pack`."""
Row = Annotated[list[float], Meta(min_length=COLUMNS, max_length=COLUMNS)]
"""The figures of `compare_rows` for one sample."""


class MalformedMessage(Exception):  # noqa: N818 - it is caught where the worker is dropped
    """Names the part of a message that no worker of servemark would send."""


@dataclass(frozen=True)
class Expected:
    """Facts that the master knows about the reports to come."""

    longest_ns: int
    """The interval cannot have been prolonged beyond this."""
    windows: int
    seconds: int | None = None
    """Number of a trace's seconds that are counted; None: they are not."""
    warm_up_windows: int | None = None
    outputs: Sequence[str] = ()
    """The names of the outputs that are compared with golden ones."""
    samples: int = 0
    """Number of golden samples."""


class _Message(Struct, tag_field="kind"):
    run: Word


class _Join(_Message, tag="join"):
    token: Word


class _Ready(_Message, tag="ready"):
    host: Word
    pid: Count
    fingerprint: dict[Word, Word]


class _Failed(_Message, tag="failed", kw_only=True):
    what: Words
    fix: Words | None = None
    exit_code: ExitCode


class _Pong(_Message, tag="pong"):
    sent_ns: Clock
    clock_ns: Clock


class _Traffic(Struct, forbid_unknown_fields=True):
    scheduled: Count
    sent: Count
    in_flight: Count
    backlog: Count


class _Granted(Struct, forbid_unknown_fields=True):
    priority: Priority
    note: Words | None


class _WarmUp(Struct):
    passed_ns: Since
    waiting_since_ns: Since | None
    windows: tuple[list[Count], list[Count], list[Count]]


class _Compared(Struct, forbid_unknown_fields=True):
    answers: Count
    samples: list[Count]
    found: dict[str, list[Row]]


class _Recorded(Struct):
    length_ns: Annotated[int, Meta(gt=0, le=MAX_COUNT)]
    answered: Count
    clock: tuple[Count, Count, Count, Packed] | None
    late: Count
    completed: Count
    scheduled: Count
    unsent: Count
    outside: Count
    in_flight_at_start: Count
    longest_pause_ns: Count
    latency: Packed
    service_time: Packed
    schedule_delay: Packed
    waited_delay: Packed
    windows: list[tuple[Packed, Count, Count, Count]]
    seconds: tuple[list[bytes], list[Count], list[Count]] | None
    errors: Annotated[dict[Word, Count], Meta(max_length=MAX_STATE_KINDS)]
    messages: Annotated[dict[Word, Said], Meta(max_length=MAX_STATE_KINDS)]


class _State(_Message, tag="state"):
    final: bool
    interrupted: Words | None
    cpu_utilization: Annotated[float, Meta(ge=0, lt=MAX_COUNT)] | None
    max_in_flight: Count
    traffic: _Traffic
    granted: _Granted
    warm_up: _WarmUp | None
    checked: _Compared | None
    recorder: _Recorded


_KINDS = _Join | _Ready | _Failed | _Pong | _State


def check_message(message: Any, expected: Expected | None) -> None:
    """Check a message before anything reads it; `expected` is None until the run begins. Raises MalformedMessage."""
    try:
        found: _KINDS = msgspec.convert(message, _KINDS, builtin_types=(bytes,))
    except (msgspec.ValidationError, RecursionError) as error:
        raise MalformedMessage(str(error)[:MAX_NAME]) from error
    if isinstance(found, _State):
        if expected is None:
            raise MalformedMessage("a report before the run")
        if found.warm_up is not None:
            _require({*map(len, found.warm_up.windows)} == {expected.warm_up_windows}, "warm_up.windows")
        _check_compared(found.checked, expected)
        _check_recorded(found.recorder, expected)


def _check_compared(compared: _Compared | None, expected: Expected) -> None:
    """Check how the answers agreed with the golden ones."""
    if compared is None:
        return
    samples = compared.samples
    _require(len(samples) <= expected.samples, "checked.samples")
    _require(all(each < expected.samples for each in samples), "checked.samples")
    if compared.answers:
        _require(bool(samples) and set(compared.found) == set(expected.outputs), "checked.found")
        _require(all(len(rows) == len(samples) for rows in compared.found.values()), "checked.found")


def _check_recorded(state: _Recorded, expected: Expected) -> None:
    """Check the state of a worker's recorder, and that its parts agree with each other."""
    _require(state.length_ns <= expected.longest_ns, "length_ns")
    latency, delay = _histogram(state.latency, "latency"), _histogram(state.schedule_delay, "schedule_delay")
    service, waited = _histogram(state.service_time, "service_time"), _histogram(state.waited_delay, "waited_delay")
    _require(latency.count == service.count == delay.count, "service_time")
    _require(bool((waited.counts <= delay.counts).all()), "waited_delay")
    failed = sum(state.errors.values())
    _require(state.scheduled == latency.count + failed and state.unsent <= failed, "scheduled")
    _require(state.late <= latency.count, "late")
    _require(latency.count <= state.answered, "answered")
    if state.clock is not None:
        _histogram(state.clock[3], "clock")
    _require(0 < len(state.windows) <= max(expected.windows, MAX_PROLONGED_WINDOWS), "windows")
    answered = sum(_histogram(packed, "windows").count for packed, *_ in state.windows)
    scheduled = sum(count for _, _, count, _ in state.windows)
    _require(answered == latency.count and scheduled == state.scheduled, "windows")
    if state.seconds is not None:
        planned, counted = expected.seconds, len(state.seconds[0])
        # A closed loop's interval may be prolonged, within the bound of its length.
        _require(planned is not None and planned <= counted <= planned + -(-expected.longest_ns // S), "seconds")
        _require(all(len(each) == counted for each in state.seconds), "seconds")
        _require(not any(len(each) % 4 for each in state.seconds[0]), "seconds")


def _histogram(packed: Packed, name: str) -> Histogram:
    """Unpack a histogram whose counts are those of its slots."""
    slots, counts, count, _, least, most, *_ = packed
    _require(4 * len(slots) == len(counts) and not len(slots) % 2 and least <= most, name)
    places, values = np.frombuffer(slots, "<u2").astype(np.int64), np.frombuffer(counts, "<i8")
    _require(not len(places) or int(places[-1]) < len(Histogram().counts), name)
    _require(bool((np.diff(places) > 0).all()) and bool(((values > 0) & (values <= MAX_COUNT)).all()), name)
    _require(sum(values.tolist()) == count, name)
    return Histogram.unpack(packed)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise MalformedMessage(what)
