"""Computes a result (the schema of docs/cli.md) and its verdict from what a measurement saw."""

import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from loadgen.agreement import agreement_figures, unchecked
from loadgen.arrivals import Stage
from loadgen.confidence import early_stopping
from loadgen.control import restarted, server_metrics
from loadgen.measurement import Measured, Measurement
from loadgen.options import LoadConfig
from loadgen.recorder import Recorder, Window
from loadgen.scenario import Mode
from servemark.bottleneck import bottleneck
from servemark.environment import collect
from servemark.results import SCHEMA_VERSION
from servemark.stats import Histogram, samples_needed
from servemark.verdict import STEADY_WINDOWS, TREND_WINDOWS, Observations, judge

_CLOSED_LOOP_DELAY = "a closed loop has no schedule"
_NONE_SENT = "no request was sent in the measured interval"
_ENERGY_KEYS = ("joules_per_inference", "average_w", "idle_w", "joules", "source", "boundary", "samples")


def header(config: LoadConfig, measurement: Measurement) -> dict[str, Any]:
    """The part of a result that is known before the run; written first, marked partial."""
    workload, placement = config.workload, measurement.placement
    unknown = "the server does not say"
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "load",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "config": {**config.to_dict(), **measurement.target.config},
        "seed": config.seed,
        "workload": workload.name,
        "task": workload.task,
        "suites": list(workload.suites),
        "engine": placement.engine,
        "device": placement.device,
        "provider": placement.provider,
        "precision": (config.entry.read_manifest() or {}).get("precision"),
        "batch_size": config.batch_size,
        "protocol": measurement.target.protocol,
        "shared_memory": measurement.target.shared_memory,
        "scenario": config.scenario.to_dict(),
    }
    for key in ("engine", "device", "provider"):
        if result[key] is None:
            result[f"{key}_reason"] = unknown
    if result["precision"] is None:
        result["precision_reason"] = f"no {config.entry.manifest.name} beside the local model"
    not_run: dict[str, Any] = {"verdict": None, "limited_by": None, "metrics": None, "windows": [], "stages": []}
    return {**result, **not_run, "environment": collect(), "partial": True}


def complete(
    result: dict[str, Any], config: LoadConfig, measurement: Measurement, measured: Measured
) -> dict[str, Any]:
    """The whole result."""
    recorder = measured.recorder
    accuracy, mismatch = _accuracy(config, measurement, recorder)
    observations = observe(
        config, measured, mismatch, accuracy["output_agreement"]["checked"] if measurement.golden else None
    )
    metrics = {
        "latency_ms": recorder.latency.summary(),
        "service_time_ms": recorder.service_time.summary(),
        "schedule_delay_ms": _schedule_delay(config, recorder),
        "early_stopping": early_stopping(recorder, config.slo),
        "throughput": _throughput(config, measured),
        "errors": _errors(recorder),
        "accuracy": accuracy,
        "energy": _energy(config, measured),
        "server": server_metrics(measured.start.statistics, measured.end.statistics, measurement.target.no_statistics),
        "client": {
            "cpu_share": _cpu_share(measured),
            "max_in_flight": measured.peak_in_flight,
            **_waiting(config, recorder),
            "workers": 1,
            "requests_outside_interval": recorder.outside,
        },
    }
    verdict = judge(observations).to_dict()
    return {
        **result,
        "scenario": {**result["scenario"], "measured_s": round(measured.measured_s, 6)},
        "verdict": verdict,
        "limited_by": bottleneck(metrics, verdict["constraints"], open_loop=config.open_loop),
        "metrics": metrics,
        "windows": _windows(measured),
        "stages": _stages(config, measured),
        "partial": measured.interrupted is not None,
    }


def histograms(measured: Measured) -> dict[str, str]:
    """The histograms in HdrHistogram's V2 base64 format, values in µs."""
    recorder = measured.recorder
    parts = {
        "latency": recorder.latency,
        "service_time": recorder.service_time,
        "schedule_delay": recorder.schedule_delay,
    }
    return {f"{name}_us": histogram.encode() for name, histogram in parts.items()}


def observe(config: LoadConfig, measured: Measured, mismatch: str | None, checked: int | None) -> Observations:
    """What the verdict looks at."""
    recorder, slo = measured.recorder, config.slo
    open_loop = config.open_loop
    good = recorder.scheduled - recorder.errors.total()
    # Scheduled inside and answered inside, or carried in and answered inside: the difference is the growth.
    growth = good - recorder.completed
    stages = [
        _judged(windows, open_loop=True)
        for stage, windows in _windows_of_stages(config, recorder)
        if stage.rate and len(windows) >= TREND_WINDOWS
    ]
    not_judged: dict[str, str] = {}
    if config.scenario.mode is Mode.TRACE:
        not_judged["steady_state"] = "the rate of a trace changes by itself"
    elif config.scenario.mode is Mode.STAGES and not stages:
        not_judged["steady_state"] = f"it is judged within stages of {TREND_WINDOWS} s or more"
    before, after = measured.start.statistics, measured.end.statistics
    return Observations(
        requests=recorder.scheduled,
        measured_s=measured.measured_s,
        errors=recorder.errors.total(),
        max_error_share=config.max_error_share,
        cpu_share=_cpu_share(measured) or 0.0,
        windows=_judged(recorder.windows, open_loop=open_loop),
        stages=stages,
        not_judged=not_judged,
        open_loop=open_loop,
        unfinished_growth=growth,
        in_flight_edges=2 * recorder.carried_in + growth,
        schedule_delay_p99_ms=_p99(recorder.schedule_delay),
        latency_p99_ms=_p99(recorder.latency),
        slo_percentile=slo.percentile if slo else None,
        slo_limit_ms=slo.limit_ms if slo else None,
        slo_latency_ms=recorder.latency.percentile(slo.percentile) if slo and recorder.latency.count else None,
        output_mismatch=mismatch,
        outputs_checked=checked,
        server_restarted=restarted(before, after, recorder.completed),
        server_gone=before is not None and after is None,
        interrupted=measured.interrupted,
    )


def _judged(windows: Sequence[Window], *, open_loop: bool) -> list[tuple[float, float | None]]:
    """Throughput and p50 of windows, joined where one has too few requests for that, as long as three remain."""
    mean = sum(window.latency.count for window in windows) / len(windows)
    size = min(math.ceil(samples_needed(50) / mean) if mean else 1, max(len(windows) // STEADY_WINDOWS, 1))
    # From the end backwards: what is left over is the oldest.
    joined = [Window.joined(windows[end - size : end]) for end in range(len(windows), size - 1, -size)][::-1]
    return [
        (
            w.latency.count / max(w.scheduled, 1) if open_loop else float(w.completed),
            w.latency.percentile(50) if w.latency.count else None,
        )
        for w in joined
    ]


def _windows_of_stages(config: LoadConfig, recorder: Recorder) -> list[tuple[Stage, list[Window]]]:
    """The stages of a scenario that has some, each with its windows."""
    if config.scenario.mode is not Mode.STAGES:
        return []
    windows = iter(recorder.windows)
    counts = config.scenario.windows_per_stage
    return [(s, list(itertools.islice(windows, n))) for s, n in zip(config.scenario.stages, counts, strict=True)]


def _p99(histogram: Histogram) -> float:
    return histogram.percentile(99) if histogram.count else 0.0


def _cpu_share(measured: Measured) -> float | None:
    wall = measured.end.wall_s - measured.start.wall_s
    return (measured.end.cpu_s - measured.start.cpu_s) / wall if wall > 0 else None


def _schedule_delay(config: LoadConfig, recorder: Recorder) -> dict[str, Any]:
    summary = recorder.schedule_delay.summary()
    if not config.open_loop:
        figures = {
            key: None for key, value in summary.items() if isinstance(value, float | int | None) and key != "count"
        }
        return {**figures, "count": 0, "ci95": {}, "late_share": None, "reason": _CLOSED_LOOP_DELAY}
    return {
        **summary,
        "late_share": recorder.late / recorder.schedule_delay.count if recorder.schedule_delay.count else None,
    }


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


def _windows(measured: Measured) -> list[dict[str, Any]]:
    """The windows that have begun; the last one of a run that was cut short is a part of one."""
    interval, measured_s = measured.recorder.interval, measured.measured_s
    placed = [(*interval.window(index), window) for index, window in enumerate(measured.recorder.windows)]
    return [w.to_dict(s, min(length_s, measured_s - s)) for s, length_s, w in placed if s < measured_s]


def _stages(config: LoadConfig, measured: Measured) -> list[dict[str, Any]]:
    """Each stage's own figures: of the requests scheduled in it, but for the responses that came in it."""
    out, start_s = [], 0.0
    for stage, windows in _windows_of_stages(config, measured.recorder):
        seconds = min(stage.duration_s, measured.measured_s - start_s)
        if seconds > 0:
            whole = Window.joined(windows)
            out.append(
                {
                    "start_s": round(start_s, 6),
                    "duration_s": stage.duration_s,
                    "requested_rate": stage.rate,
                    "scheduled": whole.scheduled,
                    "errors": whole.errors,
                    "requests_per_s": whole.completed / seconds,
                    "latency_ms": whole.latency.summary(),
                }
            )
        start_s += stage.duration_s
    return out


def _throughput(config: LoadConfig, measured: Measured) -> dict[str, Any]:
    recorder, duration_s = measured.recorder, measured.measured_s
    requests_per_s = recorder.completed / duration_s if duration_s else 0.0
    out: dict[str, Any] = {
        "requests_per_s": requests_per_s,
        "inferences_per_s": requests_per_s * config.batch_size,
        "requested_rate": config.scenario.rate if config.open_loop else None,
        "scheduled_rate": recorder.scheduled / duration_s if duration_s else 0.0,
        "achieved_rate": requests_per_s,
    }
    if not config.open_loop:
        out |= {
            "requested_rate_reason": _CLOSED_LOOP_DELAY,
            "scheduled_rate": None,
            "scheduled_rate_reason": _CLOSED_LOOP_DELAY,
        }
    return out


def _accuracy(config: LoadConfig, measurement: Measurement, recorder: Recorder) -> tuple[dict[str, Any], str | None]:
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
    if measurement.golden is None:
        reason = f"no golden outputs in {config.entry.folder.name}: `{config.entry.export_command()}`"
        return {"output_agreement": unchecked(reason), "quality": not_measured}, None
    figures, mismatch = agreement_figures(
        recorder.sampled, measurement.golden, config.workload.outputs, config.workload.agreement.at(config.precision)
    )
    return {"output_agreement": figures, "quality": not_measured}, mismatch


def _energy(config: LoadConfig, measured: Measured) -> dict[str, Any]:
    reading = measured.energy
    out: dict[str, Any] = dict.fromkeys(_ENERGY_KEYS)
    if reading is not None:
        out |= {key: value for key, value in asdict(reading).items() if key != "reason"}
        out["idle_w"] = measured.idle_w
        inferences = measured.recorder.completed * config.batch_size
        if reading.joules is not None and inferences:
            out["joules_per_inference"] = reading.joules / inferences
    reason = measured.energy_reason or (reading.reason if reading else None) or "no inference was completed"
    return out | {f"{key}_reason": reason for key in _ENERGY_KEYS if out[key] is None}
