"""Observations for the verdict, from a measurement."""

import itertools
import math
from collections.abc import Sequence

from loadgen.driver.event_loop import GENERATOR_ERROR
from loadgen.driver.observers import BACKEND_DIED
from loadgen.evaluation.evidence import receive_clock
from loadgen.kserve.model_documents import restarted
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.measurement import Measured, worker_name
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Window
from servemark.documents.load import Stage, Stages, Trace
from servemark.figures.evidence import Evidence
from servemark.figures.latency import moved_by_late_sending
from servemark.figures.throughput import NOT_BEGUN
from servemark.figures.value import Figures
from servemark.machine.scheduling import GrantedPriority, Priority
from servemark.quantities import figure
from servemark.results.constraints import (
    ACHIEVED_SHARE,
    SHORTEST_WINDOW_S,
    Observations,
    WindowFigures,
    schedule_delay_limit_ms,
)
from servemark.results.objectives import COLD_START, ERRORS, LATENCY, RECOVERY, THROUGHPUT, Seen, Slo
from servemark.results.schema.details import KERNEL, ColdStart, Recovery
from servemark.results.schema.run import Worker
from servemark.results.transients import slowest, steady_after
from servemark.results.verdict import Kind
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import Ranks
from servemark.stats.trend import FEWEST, is_growing


def observe(
    config: LoadConfig,
    measured: Measured,
    mismatch: str | None,
    figures: Figures,
    recoveries: Sequence[Recovery] = (),
    cold: ColdStart | None = None,
) -> Observations:
    """Collect what the verdict judges; `mismatch` names the output that differs from the golden one.

    `figures` are those of the whole run; of one that goes on, those that are known.
    """
    recorder, workers = measured.recorder, measured.load.workers
    open_loop = config.open_loop
    good = recorder.scheduled - recorder.errors.total()
    # Scheduled inside and answered inside, or carried in and answered inside: the difference is the growth.
    growth = good - recorder.completed
    changing = isinstance(config.scenario.load, Stages | Trace) or bool(config.live.at) or config.server.cold_start
    long_stages = [
        windows
        for stage, windows in windows_of_stages(config, recorder)
        if stage.rate and stage.to_rate is None and len(windows) >= FEWEST
    ]
    stages = [_judged(windows, open_loop=True) for windows in long_stages if not _backlog_changes(windows)]
    statistics = measured.statistics
    last = statistics.after or statistics.late
    return Observations(
        machine=measured.machine.use,
        requests=recorder.scheduled,
        measured_s=measured.measured_s,
        errors=recorder.errors.total(),
        timeouts=recorder.errors["timeout"],
        unsent=recorder.unsent,
        max_error_rate=config.request.objectives.max_error_rate,
        longest_pause_ms=recorder.longest_pause_ns / 1e6,
        cpu_utilization=measured.cpu_utilization or 0.0,  # not judged where it is not known
        windows=_judged(recorder.windows, open_loop=open_loop),
        stages=stages,
        skipped=_skipped(config, measured, judged_stages=len(stages), long_stages=len(long_stages)),
        open_loop=open_loop,
        kernel_clock=receive_clock(recorder) == KERNEL,
        unfinished_growth=growth,
        in_flight_edges=2 * recorder.in_flight_at_start + growth,
        growth_of_windows=() if changing else _growth(recorder.windows),
        schedule_delay_p99_ms=_shown_p99(recorder.schedule_delay),
        generator_delay_p99_ms=_shown_p99(recorder.schedule_delay.without(recorder.waited_delay)),
        lower=config.scenario.words.lower,
        longer=config.scenario.words.longer if measured.load.interrupted is None else "let the run go on",
        relief=config.scenario.relief,
        not_realtime=_not_realtime(measured.load.granted),
        latency_p99_ms=_p99(recorder.latency),
        objectives=[
            Seen(slo, slowest(recoveries))
            if slo.figure == RECOVERY
            else Seen(slo, steady_after(cold, slo.limit, measured.measured_s))
            if slo.figure == COLD_START
            else seen(slo, recorder, measured.measured_s, figures, open_loop=open_loop)
            for slo in config.slo
        ],
        output_mismatch=mismatch,
        outputs_checked=measured.checked.answers if measured.checked else None,
        server_restarted=restarted(statistics.before, last, recorder.completed),
        server_gone=statistics.available and last is None,
        generator_errors=recorder.errors[GENERATOR_ERROR],
        backend_died=recorder.errors[BACKEND_DIED] > 0,
        interrupted=measured.load.interrupted,
        workers=len(workers),
        worker_troubles=_troubles(workers, recorder, open_loop=open_loop),
        clock_uncertainty_ms=max((worker["clock_uncertainty_ms"] for worker in workers), default=0.0),
    )


def _skipped(config: LoadConfig, measured: Measured, *, judged_stages: int, long_stages: int) -> dict[str, str]:
    """Name the constraints that are not judged, each with the reason."""
    skipped: dict[str, str] = {}
    if measured.load.interrupted is not None:
        skipped[Kind.STEADY_STATE] = "the run was cut short"
    elif config.live.at:
        skipped[Kind.STEADY_STATE] = "commands were run beside the load (--at)"
    elif config.server.cold_start:
        skipped[Kind.STEADY_STATE] = "a cold start is not steady from its first second on (--cold-start)"
    elif config.scenario.trace:
        skipped[Kind.STEADY_STATE] = "the rate of a trace changes by itself"
    elif isinstance(config.scenario.load, Stages) and not judged_stages:
        skipped[Kind.STEADY_STATE] = (
            "in each stage that is long enough requests piled up, or a pile was worked off"
            if long_stages
            else f"no stage keeps one rate for {FEWEST * SHORTEST_WINDOW_S:g} s or more"
        )
    if config.live.at:
        skipped |= dict.fromkeys((Kind.ERROR_RATE, Kind.SERVER_ALIVE), "commands may have caused it (--at)")
    if config.open_loop and receive_clock(measured.recorder) == KERNEL and measured.machine.server_elsewhere:
        skipped[Kind.OTHER_LOAD] = (
            "the server is on another machine, and the kernel tells when answers came: other work can only delay the "
            "sending, which schedule_delay_p99 judges"
        )
    if measured.machine.use is None:
        skipped[Kind.OTHER_LOAD] = measured.machine.reason
    if measured.cpu_utilization is None:
        skipped[Kind.CLIENT_CPU] = NOT_BEGUN
    return skipped


def seen(slo: Slo, recorder: Recorder, measured_s: float, figures: Figures, *, open_loop: bool) -> Seen:
    """Return the run's figure for an objective. A failed request lies over every limit of a time."""
    if slo.figure == ERRORS:
        return Seen(slo, recorder.errors.total() / recorder.scheduled if recorder.scheduled else None)
    if slo.figure == THROUGHPUT:
        if not measured_s:
            return Seen(slo, None)
        # Three standard deviations of the number of Poisson arrivals at the objective's rate.
        chance = 3 * math.sqrt(slo.limit / measured_s) if open_loop else 0.0
        return Seen(slo, recorder.completed / measured_s, chance=chance)
    if not slo.timed:
        return _of_figure(slo, figures)
    times = recorder.latency if slo.figure == LATENCY else recorder.service_time
    value = times.percentile(slo.percentile) if times.total else math.inf
    windows = [window.latency for window in recorder.windows] if slo.figure == LATENCY else []
    found = times.ranks(slo.percentile, windows)
    moved = None
    if slo.figure == LATENCY:
        evidence = Evidence(
            open_loop=open_loop,
            latency=recorder.latency,
            service_time=recorder.service_time,
            waited_delay=recorder.waited_delay,
        )
        moved = moved_by_late_sending(evidence, slo.percentile)
    return Seen(
        slo,
        value if value < math.inf and moved is None else None,
        times.count_above(slo.limit),
        times.total,
        bound=times.at_rank(found.bound) if isinstance(found, Ranks) else None,
        no_bound=None if isinstance(found, Ranks) else found,
        unknown=moved or "",
    )


def _of_figure(slo: Slo, figures: Figures) -> Seen:
    """Return any other figure for an objective, unknown for its own reason."""
    found = figures.get(slo.figure)
    if found is None:
        return Seen(slo, None, unknown="the run has no such figure")
    return Seen(slo, found["value"], unknown=found.get("reason", "") if found["value"] is None else "")


def _judged(windows: Sequence[Window], *, open_loop: bool) -> list[WindowFigures]:
    """Return the figures of windows by which their steadiness is judged."""
    whole = Window.joined(windows).latency
    p99_ms = whole.percentile(99) if whole.total else math.inf
    return [
        WindowFigures(
            w.latency.count / max(w.scheduled, 1) if open_loop else float(w.completed),
            w.latency.answered().percentile(50) if w.latency.count else None,
            w.latency.count_above(p99_ms),
        )
        for w in windows
    ]


def _growth(windows: Sequence[Window]) -> list[int]:
    """Return by how much the number of unfinished requests grew in each window."""
    return [window.scheduled - window.errors - window.completed for window in windows]


def _backlog_changes(windows: Sequence[Window]) -> bool:
    """Return True if requests pile up in these windows, or a pile is worked off: a spike above the capacity does that.

    Their latency then follows the pile, and is not steady by design.
    """
    steps = _growth(windows)
    many = abs(sum(steps)) > (1 - ACHIEVED_SHARE) * sum(window.scheduled for window in windows)
    return many and (is_growing(steps) or is_growing([-step for step in steps]))


def windows_of_stages(config: LoadConfig, recorder: Recorder) -> list[tuple[Stage, list[Window]]]:
    """The stages of a scenario that has some, each with its windows."""
    if not isinstance(config.scenario.load, Stages):
        return []
    windows = iter(recorder.windows)
    counts = config.scenario.windows_per_stage
    return [(s, list(itertools.islice(windows, n))) for s, n in zip(config.scenario.stages, counts, strict=True)]


def _troubles(workers: Sequence[Worker], recorder: Recorder, *, open_loop: bool) -> list[str]:
    """Each worker whose share of the load is not what was asked for, and why."""
    limit = schedule_delay_limit_ms(_p99(recorder.latency))
    troubles = []
    for worker in workers:
        late = worker["schedule_delay_p99_ci95_ms"]
        named = worker_name(worker)
        if worker["trouble"]:
            troubles.append(f"{named}: {worker['trouble']}")
        elif open_loop and late is not None and late[0] > limit:
            troubles.append(f"{named}: it sent late, by {figure(late[0])} ms or more at p99 (limit {figure(limit)} ms)")
    return troubles


def _not_realtime(granted: GrantedPriority) -> str | None:
    return (
        None if granted.priority is Priority.REALTIME else granted.note or f"--sender-priority {granted.priority.value}"
    )


def _shown_p99(histogram: Histogram) -> float:
    """Return the p99 that the sends show with confidence: the lower end of its 95 % interval.

    The p99 of 79 is their maximum: one late send of them says nothing of the generator.
    """
    return histogram.independent_interval(99)[0] if histogram.count else 0.0


def _p99(histogram: Histogram) -> float:
    return histogram.answered().percentile(99) if histogram.count else 0.0
