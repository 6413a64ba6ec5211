"""Checks of the workers' messages. A worker may be a foreign program on another host, so no field is trusted.

A message that passes can be counted without an error. One that does not costs its worker's share, and not the run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.distributed.recorder_state import COUNTS, HISTOGRAMS
from loadgen.driver.failures import MAX_KINDS, MAX_MESSAGES, MAX_WORDS
from servemark.errors import ExitCode
from servemark.machine.scheduling import Priority
from servemark.results.constraints import MAX_PROLONGED_WINDOWS
from servemark.stats.histogram import Histogram

MAX_COUNT = 1 << 53
"""The largest number of requests, or of ns (104 days), that a sum of several workers' holds exactly."""
MAX_CLOCK_NS = 1 << 62
MAX_NAME = 255
MAX_REASON = 20_000
MAX_STATE_KINDS = 2 * MAX_KINDS
"""Kinds of failure: those whose names hold a number, and those that servemark itself has."""
FIGURES_OF_A_ROW = 5
_TRAFFIC = ("scheduled", "sent", "in_flight", "backlog")


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


def check_message(message: Any, expected: Expected | None) -> None:
    """Check a message before anything reads it; `expected` is None until the run begins. Raises MalformedMessage."""
    _require(isinstance(message, dict) and _word(message.get("run")), "run")
    match message.get("kind"):
        case "join":
            _require(_word(message.get("token")), "token")
        case "ready":
            _require(_word(message.get("host")), "host")
            _require(_count(message.get("pid")), "pid")
            parts = message.get("fingerprint")
            _require(isinstance(parts, dict) and all(_word(each) for pair in parts.items() for each in pair), "parts")
        case "failed":
            _require(_words(message.get("what")), "what")
            _require(message.get("fix") is None or _words(message["fix"]), "fix")
            _require(message.get("exit_code") in [int(code) for code in ExitCode], "exit_code")
        case "pong":
            for name in ("sent_ns", "clock_ns"):
                _require(_count(message.get(name), MAX_CLOCK_NS), name)
        case "state":
            if expected is None:
                raise MalformedMessage("a report before the run")
            _check_report(message, expected)
        case _:
            raise MalformedMessage("kind")


def _check_report(report: Mapping[str, Any], expected: Expected) -> None:
    for name in ("interrupted", "cpu_utilization", "warm_up", "checked"):  # None says that there is none
        _require(name in report, name)
    _require(isinstance(report.get("final"), bool), "final")
    _require(report.get("interrupted") is None or _words(report["interrupted"]), "interrupted")
    share = report.get("cpu_utilization")
    _require(share is None or (isinstance(share, float | int) and 0 <= share < MAX_COUNT), "cpu_utilization")
    _require(_count(report.get("max_in_flight")), "max_in_flight")
    traffic = report.get("traffic")
    _require(isinstance(traffic, dict) and sorted(traffic) == sorted(_TRAFFIC), "traffic")
    _require(all(_count(each) for each in (traffic or {}).values()), "traffic")
    granted = report.get("granted")
    _require(isinstance(granted, dict) and sorted(granted) == ["note", "priority"], "granted")
    _require(granted is not None and granted["priority"] in list(Priority), "granted.priority")
    _require(granted is not None and (granted["note"] is None or _words(granted["note"])), "granted.note")
    _check_warm_up(report.get("warm_up"), expected.warm_up_windows)
    _check_compared(report.get("checked"), expected)
    _check_state(report.get("recorder"), expected)


def _check_warm_up(warm_up: Any, windows: int | None) -> None:
    if warm_up is None:
        return
    _require(windows is not None and isinstance(warm_up, dict), "warm_up")
    for name in ("passed_ns", "waiting_since_ns"):
        value = warm_up.get(name)
        allowed = isinstance(value, int) and abs(value) < MAX_COUNT
        _require(allowed or (value is None and name == "waiting_since_ns"), f"warm_up.{name}")
    parts = warm_up.get("windows")
    _require(isinstance(parts, list) and len(parts) == 3, "warm_up.windows")
    _require(all(_counts(part, windows or 0) for part in parts), "warm_up.windows")


def _check_compared(compared: Any, expected: Expected) -> None:
    """Check how the answers agreed with the golden ones."""
    if compared is None:
        return
    _require(isinstance(compared, dict) and sorted(compared) == ["answers", "found", "samples"], "checked")
    _require(_count(compared["answers"]), "checked.answers")
    samples, found = compared["samples"], compared["found"]
    _require(isinstance(samples, list) and len(samples) <= expected.samples, "checked.samples")
    _require(all(_count(each, expected.samples - 1) for each in samples), "checked.samples")
    if not compared["answers"]:
        return
    _require(bool(samples) and isinstance(found, dict) and set(found) == set(expected.outputs), "checked.found")
    for rows in found.values():
        _require(isinstance(rows, list) and len(rows) == len(samples), "checked.found")
        for row in rows:
            _require(isinstance(row, list) and len(row) == FIGURES_OF_A_ROW, "checked.found")
            _require(all(isinstance(each, float) for each in row), "checked.found")


def _check_state(state: Any, expected: Expected) -> None:
    """Check the state of a worker's recorder, and that its parts agree with each other."""
    _require(isinstance(state, dict), "recorder")
    _require(_count(state.get("length_ns"), expected.longest_ns) and state["length_ns"] > 0, "length_ns")
    for name in (*COUNTS, "longest_pause_ns"):
        _require(_count(state.get(name)), name)
    latency, service, delay, waited = (_histogram(state.get(name), name) for name in HISTOGRAMS)
    _require(latency.count == service.count == delay.count, "service_time")
    _require(bool((waited.counts <= delay.counts).all()), "waited_delay")
    errors = state.get("errors")
    _require(isinstance(errors, dict) and len(errors) <= MAX_STATE_KINDS, "errors")
    _require(all(_word(kind) and _count(count) for kind, count in errors.items()), "errors")
    failed = sum(errors.values())
    _require(state["scheduled"] == latency.count + failed and state["unsent"] <= failed, "scheduled")
    _require(state["late"] <= latency.count, "late")
    _check_messages(state.get("messages"))
    _check_windows(state.get("windows"), latency.count, state["scheduled"], expected)
    _check_seconds(state.get("seconds"), expected.seconds)


def _check_messages(messages: Any) -> None:
    _require(isinstance(messages, dict) and len(messages) <= MAX_STATE_KINDS, "messages")
    for kind, said in messages.items():
        _require(_word(kind) and isinstance(said, list) and len(said) <= MAX_MESSAGES, "messages")
        _require(all(_words(each) and len(each) <= 6 * MAX_WORDS for each in said), "messages")


def _check_windows(windows: Any, answered: int, scheduled: int, expected: Expected) -> None:
    most = max(expected.windows, MAX_PROLONGED_WINDOWS)
    _require(isinstance(windows, list) and 0 < len(windows) <= most, "windows")
    latencies = requests = 0
    for window in windows:
        _require(isinstance(window, list) and len(window) == 4, "windows")
        _require(_counts(window[1:], 3), "windows")
        latencies += _histogram(window[0], "windows").count
        requests += window[2]
    _require(latencies == answered and requests == scheduled, "windows")


def _check_seconds(seconds: Any, number: int | None) -> None:
    if seconds is None:
        return
    _require(number is not None and isinstance(seconds, list) and len(seconds) == 3, "seconds")
    latencies, completed, errors = seconds
    _require(_counts(completed, number or 0) and _counts(errors, number or 0), "seconds")
    _require(isinstance(latencies, list) and len(latencies) == number, "seconds")
    _require(all(isinstance(each, bytes) and not len(each) % 4 for each in latencies), "seconds")


def _histogram(packed: Any, name: str) -> Histogram:
    """Unpack a histogram whose counts are those of its slots."""
    _require(isinstance(packed, list) and len(packed) == 8, name)
    slots, counts, count, failed, least, most, *sums = packed
    _require(isinstance(slots, bytes) and isinstance(counts, bytes) and 4 * len(slots) == len(counts), name)
    _require(
        _count(count)
        and _count(failed)
        and _count(least, MAX_CLOCK_NS)
        and _count(most, MAX_CLOCK_NS)
        and least <= most,
        name,
    )
    _require(all(isinstance(each, float | int) and math.isfinite(each) and each >= 0 for each in sums), name)
    _require(not len(slots) % 2, name)
    places, values = np.frombuffer(slots, "<u2").astype(np.int64), np.frombuffer(counts, "<i8")
    _require(not len(places) or int(places[-1]) < len(Histogram().counts), name)
    _require(bool((np.diff(places) > 0).all()) and bool(((values > 0) & (values <= MAX_COUNT)).all()), name)
    _require(sum(values.tolist()) == count, name)
    return Histogram.unpack(packed)


def _counts(values: Any, number: int) -> bool:
    """Return True if this is a list of `number` counts."""
    return isinstance(values, list) and len(values) == number and all(map(_count, values))


def _count(value: Any, most: int = MAX_COUNT) -> bool:
    return type(value) is int and 0 <= value <= most


def _word(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_NAME


def _words(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_REASON


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise MalformedMessage(what)
