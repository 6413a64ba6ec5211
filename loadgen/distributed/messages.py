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
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.driver.failures import MAX_MESSAGES, Failures
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval, Window
from loadgen.sut.kernel_clock import KernelClock
from servemark import __version__
from servemark.repository.entry import Golden
from servemark.stats.histogram import Histogram

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
