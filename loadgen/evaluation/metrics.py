"""A result's metrics, from what a measurement saw."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypedDict, cast

from loadgen.driver.labelled import LabelledAnswers
from loadgen.evaluation.quality import quality_of
from loadgen.kserve.control import TIMEOUT_S
from loadgen.kserve.server_statistics import server_metrics
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.machine_use import GENERATOR, SERVER, MachineUse
from loadgen.measurement.measurement import Measured, Measurement
from loadgen.measurement.recorder import Recorder
from servemark.errors import InputDataError
from servemark.repository.entry import Golden
from servemark.results.objectives import latency_objective
from servemark.results.schema.header import unknown
from servemark.results.schema.run import (
    Client,
    Correctness,
    CpuFigures,
    EnergyFigures,
    Errors,
    Metrics,
    Quality,
    ScheduleDelay,
    TailBounds,
    Throughput,
)
from servemark.stats.histogram import Histogram, Latency
from servemark.stats.order_statistics import BOUND_CONFIDENCE
from servemark.stats.ratios import MINIMUM_PAIRS, quotient_interval
from servemark.telemetry.run import RunTelemetry
from servemark.workload.golden_check import agreement_figures, unchecked

_CLOSED_LOOP_DELAY = "a closed loop has no schedule"
NOT_BEGUN = "the run was cut short before its measured interval began"
_NO_COUNTERS = f"the server did not give its counters within {TIMEOUT_S:g} s when the interval began or ended"
_NONE_SENT = "no request was sent in the measured interval"
WRONG_EXPORT = "export again with --force; if that does not help, the engine computes something else"
WRONG_FILE = "correct the file, or the model"
"""Advice if answers differ from those in a user's file."""


def figures(measurement: Measurement, measured: Measured, correctness: Correctness) -> Metrics:
    """Everything under `metrics`."""
    config, recorder, statistics = measurement.config, measured.recorder, measured.statistics
    windows = [window.latency for window in recorder.windows]
    found: dict[str, Any] = {
        "latency_ms": recorder.latency.summary(windows=windows),
        "answered_latency_ms": recorder.latency.answered().percentiles(),
        "service_time_ms": recorder.service_time.summary(),
        "schedule_delay_ms": _schedule_delay(config, recorder),
        "tail_bounds": tail_bounds(recorder.latency, windows),
        "throughput": _throughput(config, recorder, measured.measured_s),
        "errors": errors_of(recorder.errors, recorder.messages, recorder.scheduled),
        "correctness": correctness,
        "energy": _energy(config, measured),
        "server": server_metrics(
            statistics.before,
            statistics.after,
            _NO_COUNTERS if statistics.available else measurement.target.no_statistics,
        ),
        "client": _client(config, measured, measurement.telemetry),
        "cpu": cpu_figures(measured.machine),
        **_exchanges(measured),
    }
    return cast(Metrics, found)


def tail_bounds(latency: Histogram, windows: Sequence[Histogram]) -> TailBounds:
    """Return what each percentile does not exceed with 99 % confidence."""
    return {"confidence": BOUND_CONFIDENCE, "requests": latency.total, "bounds_ms": latency.bounds(windows)}


def _exchanges(measured: Measured) -> dict[str, Any]:
    """Figures of sequences, and of several answers to a request, where there are any."""
    sequences, answers, seconds = measured.recorder.sequences, measured.recorder.answers, measured.measured_s
    found: dict[str, Any] = {}
    if sequences is None:
        found |= unknown(["sequences"], "requests are independent: --sequence-length makes sequences")
    else:
        rate = (
            {"sequences_per_s": sequences.completed / seconds} if seconds else unknown(["sequences_per_s"], NOT_BEGUN)
        )
        found["sequences"] = {
            "length": sequences.length,
            "in_flight": sequences.in_flight,
            "completed": sequences.completed,
            "broken": sequences.broken,
            **rate,
            "duration_ms": sequences.duration.summary(),
        }
    if answers is None:
        found |= unknown(["answers"], "each request has one answer")
    else:
        mean = (
            {"per_request": answers.answers / answers.requests}
            if answers.requests
            else unknown(["per_request"], _NONE_SENT)
        )
        rate = {"answers_per_s": answers.came / seconds} if seconds else unknown(["answers_per_s"], NOT_BEGUN)
        found["answers"] = {
            **mean,
            **rate,
            "first_ms": answers.first.summary(),
            "between_ms": answers.between.summary(),
        }
    return found


class SoFar(TypedDict):
    """The figures of a run that goes on."""

    latency_ms: Latency
    service_time_ms: Latency
    schedule_delay_ms: ScheduleDelay
    throughput: Throughput
    errors: Errors


def so_far(config: LoadConfig, recorder: Recorder) -> tuple[float, SoFar]:
    """Return the figures while the run goes on, without intervals, and the seconds passed."""
    interval = recorder.interval
    passed_s = max(min(time.monotonic_ns(), interval.end) - interval.start, 0) / 1e9
    metrics: SoFar = {
        "latency_ms": recorder.latency.summary(intervals=False),
        "service_time_ms": recorder.service_time.summary(intervals=False),
        "schedule_delay_ms": _schedule_delay(config, recorder, intervals=False),
        "throughput": _throughput(config, recorder, passed_s),
        "errors": errors_of(recorder.errors, recorder.messages, recorder.scheduled),
    }
    return passed_s, metrics


def _schedule_delay(config: LoadConfig, recorder: Recorder, *, intervals: bool = True) -> ScheduleDelay:
    delay = recorder.schedule_delay
    if config.open_loop:
        late = {"late_share": recorder.late / delay.count} if delay.count else unknown(["late_share"], _NONE_SENT)
        return cast(ScheduleDelay, {**delay.summary(intervals=intervals), **late})
    none: dict[str, Any] = dict.fromkeys(ScheduleDelay.__required_keys__)
    return cast(ScheduleDelay, {**none, "count": 0, "failed": 0, "ci95": {}, "reason": _CLOSED_LOOP_DELAY})


def _client(config: LoadConfig, measured: Measured, telemetry: RunTelemetry | None) -> Client:
    recorder = measured.recorder
    cpu = (
        {"cpu_utilization": measured.cpu_utilization}
        if measured.cpu_utilization is not None
        else unknown(["cpu_utilization"], NOT_BEGUN)
    )
    return cast(
        Client,
        {
            **cpu,
            **measured.granted.to_dict(),
            **measured.cpu_latency,
            "max_in_flight": measured.peak_in_flight,
            **_waiting(config, recorder),
            **(
                {"sampling_cpu_utilization": share}
                if telemetry and (share := telemetry.cpu_utilization) is not None
                else {}
            ),
            "workers": len(measured.workers) or 1,
            "requests_outside_interval": recorder.outside,
        },
    )


def cpu_figures(machine: MachineUse) -> CpuFigures:
    """Return the cores that generator, server and other work used."""
    use = machine.use
    if use is None:
        keys = [key for key in CpuFigures.__annotations__ if key != "largest_other"]
        return cast(CpuFigures, unknown(keys, machine.reason))
    found = {
        "cores": use.allowed,
        "generator_cores": use.groups[GENERATOR],
        "server_cores": use.groups[SERVER],
        "other_cores": use.other,
        "stolen_cores": use.stolen,
        "other_cpu_share": use.other_cpu_share,
        **({"largest_other": use.largest} if use.largest else {}),
    }
    return cast(CpuFigures, found)


def _waiting(config: LoadConfig, recorder: Recorder) -> dict[str, Any]:
    """Return the share of an open loop's requests that waited for --max-in-flight, and the delay of the others."""
    if not config.open_loop or not recorder.schedule_delay.count:
        return unknown(
            ["waited_share", "generator_delay_p99_ms"], _NONE_SENT if config.open_loop else _CLOSED_LOOP_DELAY
        )
    own = recorder.schedule_delay.without(recorder.waited_delay)
    late = (
        {"generator_delay_p99_ms": own.percentile(99)}
        if own.count
        else unknown(["generator_delay_p99_ms"], "every request waited for --max-in-flight")
    )
    return {"waited_share": recorder.waited_delay.count / recorder.schedule_delay.count, **late}


def errors_of(by_kind: Mapping[str, int], messages: Mapping[str, list[str]], scheduled: int) -> Errors:
    """Return the figures of the failed requests."""
    count = sum(by_kind.values())
    share = {"share": count / scheduled} if scheduled else unknown(["share"], _NONE_SENT)
    return cast(Errors, {"count": count, **share, "by_kind": dict(by_kind), "messages": dict(messages)})


def _throughput(config: LoadConfig, recorder: Recorder, duration_s: float) -> Throughput:
    counts = {
        "requests_per_s": recorder.completed,
        "inferences_per_s": recorder.completed * config.batch_size,
        "achieved_rate": recorder.completed,
        "goodput": _good(config, recorder),
    }
    if config.open_loop:
        counts["scheduled_rate"] = recorder.scheduled
    known = {} if config.open_loop else unknown(["scheduled_rate"], _CLOSED_LOOP_DELAY)
    rates = {key: count / duration_s for key, count in counts.items()} if duration_s else unknown(counts, NOT_BEGUN)
    return cast(Throughput, {**rates, **known})


def _good(config: LoadConfig, recorder: Recorder) -> int:
    """Return the number of requests answered within the limit of the latency objective; without one, of all answered.

    They are counted by their schedule, so that late answers of a backlog are not good ones.
    """
    objective = latency_objective(config.slo)
    latency = recorder.latency
    return latency.count if objective is None else latency.total - latency.count_above(objective.limit)


def correctness_of(config: LoadConfig, measured: Measured, golden: Golden | None) -> tuple[Correctness, str | None]:
    """The figures on correctness and, where an output lies outside the limits, which one and how far."""
    quality = config.workload.quality
    found: dict[str, Any] = {
        "metric": quality and quality.metric,
        "value": None,
        "value_reason": "a load run scores its answers where it is asked to: --quality",
        "target": quality and quality.target,
        "dataset": config.workload.dataset,
    }
    if quality is None:
        found["metric_reason"] = "the workload names none"
    if quality is None or quality.target is None:
        found["target_reason"] = "no target is published"
    if config.workload.dataset is None:
        found["dataset_reason"] = "the workload has no data set of its own"
    if measured.labelled is not None:
        del found["value_reason"]
        found |= _scored(config, measured.labelled)
    if measured.checked is None:
        reason = (
            "no right outputs are known: --input-data FILE.json with validation_data"
            if config.workload.served
            else f"no golden outputs in {config.entry.folder.name}: `{config.entry.export_command()}`, or copy "
            "golden.npz and export.json there"
        )
        return {"output_agreement": unchecked(reason), "quality": cast(Quality, found)}, None
    workload = config.workload
    if not workload.served and (config.entry.read_manifest() or {}).get("weights"):
        workload = replace(workload, trained=True)
    figures, mismatch = agreement_figures(
        measured.checked,
        workload,
        config.precision,
        reference=(golden and golden.origin) or config.workload.reference,
    )
    if mismatch:
        mismatch += f"; {WRONG_FILE if golden and golden.origin else WRONG_EXPORT}"
    return {"output_agreement": figures, "quality": cast(Quality, found)}, mismatch


def _scored(config: LoadConfig, answers: LabelledAnswers) -> dict[str, Any]:
    """The task's quality; where it cannot be known the run stands, with the reason."""
    try:
        score = quality_of(config, answers)
    except (InputDataError, ValueError) as error:
        return {"value_reason": str(error)}
    if score is None:
        return {"value_reason": "no labelled example was answered in the measured interval"}
    value = score["figures"][0]["value"]
    untold = {} if value is not None else {"value_reason": "these examples do not tell it"}
    return {"value": value, **untold, "score": score}


def _energy(config: LoadConfig, measured: Measured) -> EnergyFigures:
    reading, idle = measured.energy.reading, measured.energy.idle
    out: dict[str, Any] = dict.fromkeys(key for key in EnergyFigures.__annotations__ if key != "garbage_lines")
    if reading is not None:
        out |= {key: value for key, value in asdict(reading).items() if key != "reason"}
        out["idle_w"] = idle.average_w if idle else None
        inferences = measured.recorder.completed * config.batch_size
        if reading.joules is not None and inferences:
            out["joules_per_inference"] = reading.joules / inferences
            out["joules_per_request"] = reading.joules / measured.recorder.completed
            out |= _energy_interval(config, measured)
    reason = measured.energy.reason or (reading.reason if reading else None) or "no inference was completed"
    out |= {f"{key}_reason": reason for key in list(out) if out[key] is None and f"{key}_reason" not in out}
    if idle is not None and idle.reason:
        out["idle_w_reason"] = idle.reason
    if measured.energy.command is not None:
        out["garbage_lines"] = measured.energy.command.lines.garbage
    return cast(EnergyFigures, out)


def _energy_interval(config: LoadConfig, measured: Measured) -> dict[str, Any]:
    """Return the interval of the joules of an inference over stretches of the run that the meter tells apart."""
    recorder = measured.recorder
    interval, windows = recorder.interval, recorder.windows
    starts = [interval.start + interval.window(index)[0] * 1e9 for index in range(len(windows))]
    parts = measured.energy.joules_between([*starts, interval.end], [window.completed for window in windows])
    found = quotient_interval([(joules, answers * config.batch_size) for joules, answers in parts])
    key = "joules_per_inference_ci95"
    if found is not None:
        return {key: found}
    needed_s = MINIMUM_PAIRS * measured.energy.resolved_s
    return unknown([key], f"an interval needs {MINIMUM_PAIRS} parts of the run: measure for {needed_s:.2g} s or more")
