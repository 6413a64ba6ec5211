"""Figures that a run sends to the process that has started it and draws (`servemark.views.live.watched`)."""

import contextlib
import json
import math
import os
from collections.abc import Callable

from loadgen.driver.traffic import Traffic
from loadgen.evaluation.evidence import so_far
from loadgen.evaluation.live import standing
from loadgen.evaluation.observations import seen
from loadgen.measurement.measurement import Measurement
from loadgen.measurement.recorder import Recorder
from servemark.results.objectives import judge_objective
from servemark.results.schema.live_figures import LiveFigures
from servemark.stats.histogram import Histogram

LIVE_FD = "SERVEMARK_LIVE_FD"
"""Environment variable of a run: the descriptor to which it writes a line of JSON about once a second."""


def descriptor() -> int | None:
    """Return the descriptor of the process that draws this run, None if the run shows its own progress and result."""
    text = os.environ.get(LIVE_FD, "")
    if text.isdecimal():
        with contextlib.suppress(OSError):
            os.fstat(int(text))
            return int(text)
    return None


def feed(measurement: Measurement, to: int) -> Callable[[int], None]:
    """Return a function that writes the figures of a measurement, called with the time (monotonic ns).

    A reader that does not keep up misses some: the process that sends waits for nobody.
    """
    os.set_blocking(to, False)
    before = Histogram()

    def send(now: int) -> None:
        nonlocal before
        figures, before = figures_now(measurement, now, before)
        if figures is not None:
            with contextlib.suppress(OSError):
                os.write(to, json.dumps(figures).encode() + b"\n")

    return send


def figures_now(measurement: Measurement, now: int, before: Histogram) -> tuple[LiveFigures | None, Histogram]:
    """The figures now, and the latencies so far; `before` are those of the figures before."""
    measured, sending = measurement.measured, measurement.sending
    if measured is None or sending is None:
        return None, before
    config, recorder, traffic = measurement.config, sending.recorder, sending.traffic(now)
    elapsed_s = (now - recorder.interval.start) / 1e9
    latency = Histogram()
    latency.merge(recorder.latency)
    second = latency.without(before)
    return {
        "time_s": now / 1e9,
        "elapsed_s": elapsed_s,
        "auto_warmup": config.scenario.auto_warmup,
        "whole_s": (recorder.interval.end - recorder.interval.start) / 1e9,
        "answered": recorder.scheduled - recorder.errors.total() + recorder.outside,
        "asked_rate": _asked_rate(measurement, elapsed_s),
        "figures": so_far(config, recorder)[1],
        "second_p50_ms": _finite(second.percentile(50)) if second.total else None,
        "second_p99_ms": _finite(second.percentile(99)) if second.total else None,
        "in_flight": traffic.in_flight,
        "backlog": traffic.backlog,
        "queue": _queue(measurement),
        "errors": dict(recorder.errors),
        "power_w": _power(measurement),
        "constraints": standing(config, measured, sending, traffic, now),
        "objectives": _objectives(measurement, recorder, elapsed_s, traffic),
    }, latency


def _asked_rate(measurement: Measurement, elapsed_s: float) -> float | None:
    config = measurement.config
    if not config.open_loop or config.scenario.trace:
        return None
    return config.scenario.warmup_rate if elapsed_s < 0 else config.scenario.stage_at(elapsed_s).rate


def _finite(value: float) -> float | None:
    return value if value < math.inf else None


def _queue(measurement: Measurement) -> float | None:
    if measurement.telemetry is None:
        return None
    latest = measurement.telemetry.latest_of_server()
    pending = [value for column, value in latest.items() if column.name == "nv_inference_pending_request_count"]
    return sum(pending) if pending else None


def _power(measurement: Measurement) -> dict[str, float]:
    if measurement.telemetry is None:
        return {}
    latest = measurement.telemetry.latest()
    return {dict(c.labels)["boundary"]: watts for c, watts in latest.items() if c.name == "power_watts"}


def _objectives(measurement: Measurement, recorder: Recorder, elapsed_s: float, traffic: Traffic) -> dict[str, str]:
    if elapsed_s <= 0 or not traffic.scheduled:
        return {}
    found = [
        judge_objective(
            seen(slo, recorder, elapsed_s, {}, open_loop=measurement.config.open_loop), lambda _times: "", ""
        )
        for slo in measurement.config.slo
    ]
    return {each["objective"]: each["status"] for each in found}
