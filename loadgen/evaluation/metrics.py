"""A result's metrics, from what a measurement saw."""

import time
from dataclasses import asdict, replace
from typing import Any

from loadgen.evaluation.early_stopping import early_stopping
from loadgen.kserve.server_statistics import server_metrics
from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import Mode
from loadgen.measurement.measurement import Measured, Measurement
from loadgen.measurement.output_agreement import figures_of, unchecked
from loadgen.measurement.recorder import Recorder

_CLOSED_LOOP_DELAY = "a closed loop has no schedule"
NOT_BEGUN = "the run was cut short before its measured interval began"
_NONE_SENT = "no request was sent in the measured interval"
_ENERGY_KEYS = ("joules_per_inference", "average_w", "idle_w", "joules", "source", "boundary", "window_s", "samples")


def figures(measurement: Measurement, measured: Measured, accuracy: dict[str, Any]) -> dict[str, Any]:
    """Everything under `metrics`."""
    config, recorder, statistics = measurement.config, measured.recorder, measured.statistics
    # Windows of a load that changes differ by themselves.
    even = config.scenario.mode in (Mode.CLOSED, Mode.OPEN)
    windows = [window.latency for window in recorder.windows] if even else []
    return {
        "latency_ms": recorder.latency.summary(windows=windows),
        "service_time_ms": recorder.service_time.summary(),
        "schedule_delay_ms": _schedule_delay(config, recorder),
        "early_stopping": early_stopping(recorder.latency, recorder.errors.total(), config.slo),
        "throughput": _throughput(config, measured),
        "errors": _errors(recorder),
        "accuracy": accuracy,
        "energy": _energy(config, measured),
        "server": server_metrics(statistics.before, statistics.after, measurement.target.no_statistics),
        "client": {
            "cpu_share": measured.cpu_share,
            **({} if measured.cpu_share is not None else {"cpu_share_reason": NOT_BEGUN}),
            "max_in_flight": measured.peak_in_flight,
            **_waiting(config, recorder),
            "workers": len(measured.workers) or 1,
            "requests_outside_interval": recorder.outside,
        },
    }


def so_far(config: LoadConfig, measured: Measured) -> dict[str, Any]:
    """What is known while the run goes on: latencies without intervals, throughput and errors, of how many seconds."""
    recorder = measured.recorder
    interval = recorder.interval
    passed_s = max(min(time.monotonic_ns(), interval.end) - interval.start, 0) / 1e9
    metrics = {
        "latency_ms": recorder.latency.summary(intervals=False),
        "service_time_ms": recorder.service_time.summary(intervals=False),
        "schedule_delay_ms": _schedule_delay(config, recorder, intervals=False),
        "throughput": _throughput(config, replace(measured, measured_s=passed_s)),
        "errors": _errors(recorder),
    }
    return {"measured_s": passed_s, "metrics": metrics}


def _schedule_delay(config: LoadConfig, recorder: Recorder, *, intervals: bool = True) -> dict[str, Any]:
    summary = recorder.schedule_delay.summary(intervals=intervals)
    if not config.open_loop:
        figures = {
            key: None for key, value in summary.items() if isinstance(value, float | int | None) and key != "count"
        }
        return {**figures, "count": 0, "ci95": {}, "late_share": None, "reason": _CLOSED_LOOP_DELAY}
    if not recorder.schedule_delay.count:
        return {**summary, "late_share": None, "late_share_reason": _NONE_SENT}
    return {**summary, "late_share": recorder.late / recorder.schedule_delay.count}


def _waiting(config: LoadConfig, recorder: Recorder) -> dict[str, Any]:
    """How many of an open loop's requests waited for --max-in-flight, and how late the generator sent the others."""
    if not config.open_loop or not recorder.schedule_delay.count:
        reason = _NONE_SENT if config.open_loop else _CLOSED_LOOP_DELAY
        names = ("waited_share", "own_delay_p99_ms")
        return dict.fromkeys(names) | {f"{name}_reason": reason for name in names}
    own = recorder.schedule_delay.without(recorder.waited_delay)
    late = (
        {"own_delay_p99_ms": own.percentile(99)}
        if own.count
        else {
            "own_delay_p99_ms": None,
            "own_delay_p99_ms_reason": "every request waited for --max-in-flight",
        }
    )
    return {"waited_share": recorder.waited_delay.count / recorder.schedule_delay.count, **late}


def _errors(recorder: Recorder) -> dict[str, Any]:
    count = recorder.errors.total()
    share = {"share": count / recorder.scheduled} if recorder.scheduled else {"share": None, "share_reason": _NONE_SENT}
    return {"count": count, **share, "by_kind": dict(recorder.errors), "messages": recorder.messages}


def _throughput(config: LoadConfig, measured: Measured) -> dict[str, Any]:
    recorder, duration_s = measured.recorder, measured.measured_s
    rates = {
        "requests_per_s": recorder.completed,
        "inferences_per_s": recorder.completed * config.batch_size,
        "achieved_rate": recorder.completed,
        "scheduled_rate": recorder.scheduled,
    }
    out: dict[str, Any] = {key: count / duration_s if duration_s else None for key, count in rates.items()}
    out["requested_rate"] = config.scenario.rate if config.open_loop else None
    if not config.open_loop:
        out["scheduled_rate"] = None
        out |= dict.fromkeys(("requested_rate_reason", "scheduled_rate_reason"), _CLOSED_LOOP_DELAY)
    unknown = [key for key, value in out.items() if value is None]
    return {f"{key}_reason": NOT_BEGUN for key in unknown} | out


def accuracy_of(config: LoadConfig, measured: Measured) -> tuple[dict[str, Any], str | None]:
    """The figures on accuracy and, where an output lies outside the limits, which one and how far."""
    quality = config.workload.quality
    not_measured: dict[str, Any] = {
        "metric": quality.metric,
        "value": None,
        "value_reason": "a load run compares outputs; task quality needs labels and trained weights",
        "target": quality.target,
        "dataset": config.workload.dataset,
    }
    if quality.target is None:
        not_measured["target_reason"] = "no target is published"
    if config.workload.dataset is None:
        not_measured["dataset_reason"] = "the workload has no data set of its own"
    if measured.checked is None:
        reason = f"no golden outputs in {config.entry.folder.name}: `{config.entry.export_command()}`"
        return {"output_agreement": unchecked(reason), "quality": not_measured}, None
    figures, mismatch = figures_of(measured.checked, config.workload.outputs)
    return {"output_agreement": figures, "quality": not_measured}, mismatch


def _energy(config: LoadConfig, measured: Measured) -> dict[str, Any]:
    reading, idle = measured.energy.reading, measured.energy.idle
    out: dict[str, Any] = dict.fromkeys(_ENERGY_KEYS)
    if reading is not None:
        out |= {key: value for key, value in asdict(reading).items() if key != "reason"}
        out["idle_w"] = idle.average_w if idle else None
        inferences = measured.recorder.completed * config.batch_size
        if reading.joules is not None and inferences:
            out["joules_per_inference"] = reading.joules / inferences
    reason = measured.energy.reason or (reading.reason if reading else None) or "no inference was completed"
    out |= {f"{key}_reason": reason for key in _ENERGY_KEYS if out[key] is None}
    if idle is not None and idle.reason:
        out["idle_w_reason"] = idle.reason
    return out
