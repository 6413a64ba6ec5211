"""Metrics and figures of a run in progress, about once a second, in about 1 ms.

Metrics go to the places that the request names; figures to the process that has started the run and draws them
(`servemark.views.live`).
"""

import contextlib
import copy
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gevent import GreenletExit

from loadgen.evaluation.evidence import evidence_of_recorder, so_far
from loadgen.evaluation.observations import observe, seen
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.measurement import ActiveLoad, Measured, Measurement
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Traffic
from servemark import __version__, interrupts
from servemark.figures.registry import distributions, in_order
from servemark.figures.value import Figures
from servemark.output import note
from servemark.results.constraints import Observations, judge
from servemark.results.objectives import ERRORS, THROUGHPUT, Seen, judge_objective
from servemark.results.schema.run import LiveFigures, PendingResult, Result, Telemetry
from servemark.results.verdict import Kind
from servemark.stats.histogram import Histogram
from servemark.stats.trend import FEWEST
from servemark.telemetry.metrics import catalog
from servemark.telemetry.metrics.catalog import Sample, Snapshot
from servemark.telemetry.metrics.publisher import Publisher
from servemark.telemetry.recording import Column

LIVE_FD = "SERVEMARK_LIVE_FD"
"""Environment variable of a run: the descriptor to which it writes a line of JSON about once a second."""
FINISH_S = 2.5
"""Maximum wait at the end of a run for the last figures to be sent."""
INTERRUPTED_FINISH_S = 1.0
"""The same where a signal ends it."""
_BASE_UNITS = {"ms": ("seconds", 1e-3), "share": ("ratio", 1.0), "requests/s": ("requests_per_second", 1.0)}


class Live:
    """Publishes a measurement while it goes on, and its result."""

    def __init__(self, measurement: Measurement, publisher: Publisher, header: PendingResult, directory: Path) -> None:
        self._measurement, self._publisher = measurement, publisher
        self._run = run_labels(measurement.config, header, directory)
        info = (__version__, measurement.config.model, header["protocol"], str(header["batch_size"]))
        self._info = Sample.of(catalog.RUN_INFO, 1, *info)
        self._scheduled: tuple[int, int] | None = None
        """Time and count of the last snapshot."""
        self._warm_up: tuple[int, dict[Column, float]] | None = None
        """Time and joules of the last snapshot before the measured interval."""
        self._joules: dict[Column, float] = {}
        """Those of the time before it."""

    def publish(self, now: int) -> None:
        """Publish how the run stands; `now` in ns of the monotonic clock."""
        measured = self._measurement.measured
        if measured is None:
            return
        load = measured.load
        traffic = load.traffic(now)
        constraints = standing(self._measurement.config, measured, traffic, now)
        figures = so_far(self._measurement.config, load.recorder)[1]
        self._publisher.publish(self._snapshot(load, traffic, now, constraints, figures), load.spans())

    def finish(self, result: Result) -> list[Telemetry]:
        """Publish the final figures, which are the result's; what was sent to each place."""
        measured = self._measurement.measured
        if measured is None:
            return []
        load, now = measured.load, time.monotonic_ns()
        constraints = {each["name"]: each["ok"] for each in result["verdict"]["constraints"]}
        within_s = INTERRUPTED_FINISH_S if interrupts.requested() else FINISH_S
        last = self._snapshot(load, load.traffic(now), now, constraints, result["figures"])
        return self._publisher.finish(last, within_s, load.spans())

    def linger(self) -> None:
        """Leave the final figures at the endpoint for as long as the flag says, or until Ctrl-C."""
        seconds = self._measurement.config.live.metrics_grace_s
        if seconds and not interrupts.requested():
            note(f"metrics: {self._publisher.url} stays for {seconds:g} s, until Ctrl-C")
            with contextlib.suppress(KeyboardInterrupt, GreenletExit):
                interrupts.sleep(seconds)

    def _snapshot(
        self, load: ActiveLoad, traffic: Traffic, now: int, constraints: Mapping[str, bool], figures: Figures
    ) -> Snapshot:
        config, recorder = self._measurement.config, load.recorder
        measuring = recorder.interval.start <= now < recorder.interval.end
        samples = [self._info, *counters(recorder, traffic), Sample.of(catalog.MEASURING, measuring)]
        if measuring or now < recorder.interval.start:
            samples += self._requested_rate(recorder, traffic, now)
        if now >= recorder.interval.start:
            samples += stage_of(config, recorder, now)
        if load.cpu_utilization is not None:
            samples.append(Sample.of(catalog.CLIENT_CPU, load.cpu_utilization))
        samples += [Sample.of(catalog.CONSTRAINT_OK, ok, name) for name, ok in constraints.items()]
        samples += objectives(config, recorder)
        if (telemetry := self._measurement.telemetry) is not None:
            samples += machine(self._measured(telemetry.latest(), now, recorder.interval.start))
        samples += gauges(figures)
        evidence = evidence_of_recorder(config, recorder, 0.0)
        found = {each.metric: each.of(evidence) for each in distributions().values() if each.metric}
        return Snapshot(self._run, samples, {name: h for name, h in found.items() if isinstance(h, Histogram)})

    def _measured(self, latest: Mapping[Column, float], now: int, start: int) -> dict[Column, float]:
        """Return the newest readings, of energy what came after the start of the measured interval, none before it.

        Between two snapshots it is taken to grow evenly.
        """
        joules = {each: value for each, value in latest.items() if f"servemark_{each.name}" == catalog.ENERGY.name}
        if now < start:
            self._warm_up = now, joules
            return {each: value for each, value in latest.items() if each not in joules}
        if self._warm_up is not None:
            (then, before), self._warm_up = self._warm_up, None
            share = (start - then) / (now - then)
            self._joules = {each: j + share * (joules.get(each, j) - j) for each, j in before.items()}
        return {each: value - self._joules.get(each, 0.0) for each, value in latest.items()}

    def _requested_rate(self, recorder: Recorder, traffic: Traffic, now: int) -> Iterator[Sample]:
        config = self._measurement.config
        if config.scenario.trace:
            before, self._scheduled = self._scheduled, (now, traffic.scheduled)
            if before is not None and now > before[0]:
                yield Sample.of(catalog.REQUESTED_RATE, (traffic.scheduled - before[1]) * 1e9 / (now - before[0]))
        elif (rate := _asked_rate(config, (now - recorder.interval.start) / 1e9)) is not None:
            yield Sample.of(catalog.REQUESTED_RATE, rate)


def gauges(figures: Figures) -> Iterator[Sample]:
    """Yield the figures that are known and that no histogram has, in base units."""
    for figure, found in in_order(figures):
        metric, value = catalog.of_figure(figure), found["value"]
        if metric is not None and value is not None:
            yield Sample.of(metric, value * figure.unit.factor)


def run_labels(config: LoadConfig, header: PendingResult, directory: Path) -> dict[str, str]:
    """The labels of a run: what really runs, as far as the server says so, else what was asked for."""
    with contextlib.suppress(ValueError):
        directory = directory.resolve().relative_to(config.out.resolve())
    return {
        "workload": config.workload.name,
        "engine": header["engine"] or config.engine,
        "precision": header["precision"] or config.precision,
        "device": header["device"] or "",
        "scenario": config.scenario.words.mode,
        "run": directory.as_posix() if not directory.is_absolute() else directory.name,
    }


def counters(recorder: Recorder, traffic: Traffic) -> Iterator[Sample]:
    """The requests of the measured interval so far, and those on their way."""
    yield Sample.of(catalog.REQUESTS, recorder.scheduled - recorder.errors.total(), "ok", "")
    for kind, count in recorder.errors.items():
        yield Sample.of(catalog.REQUESTS, count, "failed", kind)
    yield Sample.of(catalog.SCHEDULED, traffic.scheduled)
    yield Sample.of(catalog.SENT, traffic.sent)
    yield Sample.of(catalog.IN_FLIGHT, traffic.in_flight)
    yield Sample.of(catalog.BACKLOG, traffic.backlog)


def objectives(config: LoadConfig, recorder: Recorder) -> Iterator[Sample]:
    """Limits, and of percentiles and errors how much of what they allow is used up."""
    for slo in config.slo:
        if not (slo.timed or slo.figure in {ERRORS, THROUGHPUT}):
            continue
        name = slo.name if slo.name.startswith("service") or not slo.timed else f"latency_{slo.name}"
        unit, factor = _BASE_UNITS[slo.unit]
        yield Sample.of(catalog.OBJECTIVE_LIMIT, slo.limit * factor, name, unit)
        if slo.figure == THROUGHPUT:
            continue
        if slo.figure == ERRORS:
            found = Seen(slo, None, recorder.errors.total(), recorder.scheduled)
        else:
            found = seen(slo, recorder, 0.0, {}, open_loop=config.open_loop)
        share = 1 - slo.percentile / 100 if slo.timed else slo.limit
        yield Sample.of(catalog.OBJECTIVE_ALLOWED, share, name)
        yield Sample.of(catalog.OBJECTIVE_BREACHES, found.over, name)
        if allowed := found.requests * share:
            yield Sample.of(catalog.OBJECTIVE_BURNED, found.over / allowed, name)


def machine(latest: Mapping[Column, float]) -> Iterator[Sample]:
    """Yield the last readings of this machine's meters."""
    for column, value in latest.items():
        metric = catalog.by_name().get(f"servemark_{column.name}")
        if metric is not None:
            yield Sample.of(metric, value, *(dict(column.labels)[name] for name in metric.labels))


def stage_of(config: LoadConfig, recorder: Recorder, now: int) -> list[Sample]:
    """The stage that goes on; a load without stages is one."""
    interval = recorder.interval
    stage = config.scenario.stage_at((min(now, interval.end - 1) - interval.start) / 1e9)
    ago_s = (time.monotonic_ns() - interval.start) / 1e9 - stage.start_s
    return [Sample.of(catalog.STAGE, stage.number), Sample.of(catalog.STAGE_START, time.time() - ago_s)]


def standing(config: LoadConfig, measured: Measured, traffic: Traffic, now: int) -> dict[str, bool]:
    """Judge the constraints that can be judged before the end; none before the interval."""
    recorder, interval = measured.load.recorder, measured.load.recorder.interval
    if now <= interval.start:
        return {}
    so_far = copy.copy(recorder)
    passed = sum(edge <= now for edge in interval.edges[1:])
    so_far.windows = recorder.windows[:passed]
    until_now = replace(measured, recorder=so_far, measured_s=(min(now, interval.end) - interval.start) / 1e9)
    observed = _unfinished(observe(config, until_now, None, {}), recorder, traffic)
    return {constraint["name"]: constraint["ok"] for constraint in judge(observed)["constraints"]}


def _unfinished(observed: Observations, recorder: Recorder, traffic: Traffic) -> Observations:
    """Without what only the end tells; requests that are due count as such before they are answered."""
    skipped = dict(observed.skipped)
    if not observed.stages and len(observed.windows) < FEWEST:
        skipped.setdefault(Kind.STEADY_STATE, "too few windows have passed")
    due = max(traffic.scheduled, recorder.scheduled)
    growth = due - recorder.errors.total() - recorder.completed
    return replace(
        observed,
        requests=due,
        unfinished_growth=growth,
        in_flight_edges=2 * recorder.in_flight_at_start + growth,
        skipped=skipped,
        outputs_checked=None,
        server_gone=False,
    )


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
    measured = measurement.measured
    if measured is None:
        return None, before
    config, recorder, traffic = measurement.config, measured.load.recorder, measured.load.traffic(now)
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
        "asked_rate": _asked_rate(config, elapsed_s),
        "figures": so_far(config, recorder)[1],
        "second_p50_ms": _finite(second.percentile(50)) if second.total else None,
        "second_p99_ms": _finite(second.percentile(99)) if second.total else None,
        "in_flight": traffic.in_flight,
        "backlog": traffic.backlog,
        "queue": _queue(measurement),
        "errors": dict(recorder.errors),
        "power_w": _power(measurement),
        "constraints": standing(config, measured, traffic, now),
        "objectives": _objectives(measurement, recorder, elapsed_s, traffic),
    }, latency


def _asked_rate(config: LoadConfig, elapsed_s: float) -> float | None:
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
