"""A result's metrics, from what a measurement saw."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from loadgen.driver.labelled import LabelledAnswers
from loadgen.evaluation.quality import quality_of
from loadgen.evaluation.receive_clock import clock_figures
from loadgen.kserve.control import TIMEOUT_S
from loadgen.kserve.server_statistics import server_metrics
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.machine_use import GENERATOR, SERVER, MachineUse
from loadgen.measurement.measurement import Measured, Measurement
from loadgen.measurement.recorder import Recorder
from loadgen.stateful.decoupled import AnswerRecorder
from loadgen.stateful.sequences import SequenceRecorder
from loadgen.sut.connection_times import ConnectionTimes
from loadgen.sut.volume import Volume
from loadgen.transport.server_url import is_secure
from loadgen.wire.cancellation import CancellationRecorder
from loadgen.wire.servers import ServerRecorder
from servemark.errors import InputDataError
from servemark.repository.entry import Golden
from servemark.results.objectives import latency_objective
from servemark.results.schema.metrics import (
    AnswerFigures,
    CancellationFigures,
    Client,
    CompressionFigures,
    ConnectionParts,
    Correctness,
    CpuFigures,
    EnergyFigures,
    Errors,
    Metrics,
    OneOfSeveral,
    Quality,
    ScheduleDelay,
    SequenceFigures,
    TailBounds,
    Throughput,
)
from servemark.stats.histogram import Histogram, Latency
from servemark.stats.order_statistics import BOUND_CONFIDENCE
from servemark.stats.ratios import MINIMUM_PAIRS, quotient_interval
from servemark.stats.unknown import explained, or_unknown, unknown, unknown_group
from servemark.telemetry.run import RunTelemetry
from servemark.workload.golden_check import agreement_figures, unchecked

_CLOSED_LOOP_DELAY = "a closed loop has no schedule"
NOT_BEGUN = "the run was cut short before its measured interval began"
_NO_COUNTERS = f"the server did not give its counters within {TIMEOUT_S:g} s when the interval began or ended"
_NOT_SAMPLED = "no meters were read for series.json"
_NONE_SENT = "no request was sent in the measured interval"
WRONG_EXPORT = "export again with --force; if that does not help, the engine computes something else"
WRONG_FILE = "correct the file, or the model"
"""Advice if answers differ from those in a user's file."""


@explained
def figures(measurement: Measurement, measured: Measured, correctness: Correctness) -> Metrics:
    """Everything under `metrics`."""
    config, recorder, statistics = measurement.config, measured.recorder, measured.statistics
    windows = [window.latency for window in recorder.windows]
    no_statistics = _NO_COUNTERS if statistics.available else measurement.target.no_statistics
    return {
        "latency_ms": recorder.latency.summary(windows=windows),
        "answered_latency_ms": recorder.latency.answered().percentiles(),
        "service_time_ms": recorder.service_time.summary(),
        "schedule_delay_ms": _schedule_delay(config, recorder),
        "tail_bounds": tail_bounds(recorder.latency, windows),
        "throughput": _throughput(config, recorder, measured.measured_s),
        "errors": errors_of(recorder.errors, recorder.messages, recorder.scheduled),
        "correctness": correctness,
        "energy": _energy(config, measured),
        "server": server_metrics(statistics.before, statistics.after, no_statistics),
        "client": _client(config, measured, measurement.telemetry),
        "clock": clock_figures(recorder),
        "cpu": cpu_figures(measured.machine),
        "sequences": _sequences(recorder.sequences, measured.measured_s),
        "answers": _answers(recorder.answers, measured.measured_s),
        "connections": _connections(recorder.connection_times, secure=is_secure(config.url)),
        "compression": _compression(config, measurement.target.volume),
        "cancellation": _cancellation(recorder.cancelled),
        "servers": _servers(recorder.servers),
    }


def tail_bounds(latency: Histogram, windows: Sequence[Histogram]) -> TailBounds:
    """Return what each percentile does not exceed with 99 % confidence."""
    return {"confidence": BOUND_CONFIDENCE, "requests": latency.total, "bounds_ms": latency.bounds(windows)}


def _per_s(count: float, seconds: float) -> float | None:
    return count / seconds if seconds else unknown(NOT_BEGUN)


def _sequences(found: SequenceRecorder | None, seconds: float) -> SequenceFigures | None:
    if found is None:
        return unknown("requests are independent: --sequence-length makes sequences")
    return {
        "length": found.length,
        "in_flight": found.in_flight,
        "completed": found.completed,
        "broken": found.broken,
        "sequences_per_s": _per_s(found.completed, seconds),
        "duration_ms": found.duration.summary(),
    }


def _answers(found: AnswerRecorder | None, seconds: float) -> AnswerFigures | None:
    if found is None:
        return unknown("each request has one answer")
    return {
        "per_request": found.answers / found.requests if found.requests else unknown(_NONE_SENT),
        "answers_per_s": _per_s(found.came, seconds),
        "first_ms": found.first.summary(),
        "between_ms": found.between.summary(),
    }


def _connections(found: ConnectionTimes | None, *, secure: bool) -> ConnectionParts | None:
    if found is None:
        return unknown("connections were kept: --no-connection-reuse makes one for each request")
    return {
        "dns_ms": or_unknown(found.dns_ms, "the URL has an address, and not a name"),
        "connect_ms": found.connect.summary(),
        "tls_ms": found.tls.summary() if secure else unknown("connections have no TLS"),
        "first_byte_ms": found.first_byte.summary(),
        "receive_ms": found.receive.summary(),
    }


def _compression(config: LoadConfig, found: Volume | None) -> CompressionFigures | None:
    asked = config.server.request_compression, config.server.response_compression
    if found is None or {*asked} == {"none"}:
        return unknown("no compression was asked for")
    no_request = "--request-compression was not asked for"
    no_answer = "--response-compression was not asked for" if asked[1] == "none" else "no answer came compressed"
    requests, answers = max(found.requests, 1), max(found.answers, 1)
    return {
        "request_bytes": found.request_bytes / requests if found.requests else unknown(no_request),
        "request_sent_bytes": found.sent_bytes / requests if found.requests else unknown(no_request),
        "compressed_answers": found.answers,
        "answer_received_bytes": found.received_bytes / answers if found.answers else unknown(no_answer),
        "answer_bytes": found.answer_bytes / answers if found.answers else unknown(no_answer),
    }


def _cancellation(found: CancellationRecorder | None) -> CancellationFigures | None:
    if found is None:
        return unknown("no request was to be given up: --request-cancellation")
    return {
        "requests": found.requests,
        "cancelled": found.given_up.count,
        "answered": found.answered,
        "failed": dict(found.failed),
        "given_up_ms": found.given_up.summary(),
    }


def _servers(found: ServerRecorder | None) -> list[OneOfSeveral] | None:
    if found is None:
        return unknown("one server took all requests")
    return [
        {
            "url": url,
            "requests": latency.total,
            "errors": errors.total(),
            "errors_by_kind": dict(errors),
            "latency_ms": latency.summary(),
        }
        for url, latency, errors in zip(found.urls, found.latency, found.errors, strict=True)
    ]


class SoFar(TypedDict):
    """The figures of a run that goes on."""

    latency_ms: Latency
    service_time_ms: Latency
    schedule_delay_ms: ScheduleDelay
    throughput: Throughput
    errors: Errors


@explained
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
        late = recorder.late / delay.count if delay.count else unknown(_NONE_SENT)
        return {**delay.summary(intervals=intervals), "late_share": late}
    return {**unknown_group(ScheduleDelay, _CLOSED_LOOP_DELAY), "count": 0, "failed": 0, "ci95": {}}


def _client(config: LoadConfig, measured: Measured, telemetry: RunTelemetry | None) -> Client:
    recorder = measured.recorder
    waited, delay_ms = _waiting(config, recorder)
    return {
        **measured.granted.to_dict(),
        **measured.cpu_latency,
        "cpu_utilization": or_unknown(measured.cpu_utilization, NOT_BEGUN),
        "max_in_flight": measured.peak_in_flight,
        "waited_share": waited,
        "generator_delay_p99_ms": delay_ms,
        "sampling_cpu_utilization": or_unknown(telemetry.cpu_utilization if telemetry else None, _NOT_SAMPLED),
        "workers": len(measured.workers) or 1,
        "requests_outside_interval": recorder.outside + (recorder.cancelled.outside if recorder.cancelled else 0),
    }


@explained
def cpu_figures(machine: MachineUse) -> CpuFigures:
    """Return who used the cores, unknown for the reason that the machine gives."""
    use = machine.use
    if use is None:
        return unknown_group(CpuFigures, machine.reason)
    found: CpuFigures = {
        "cores": use.allowed,
        "generator_cores": use.groups[GENERATOR],
        "server_cores": use.groups[SERVER],
        "other_cores": use.other,
        "stolen_cores": use.stolen,
        "other_cpu_share": use.other_cpu_share,
    }
    if use.members.get(SERVER):
        found["server_processes"] = use.members[SERVER]
    if use.largest:
        found["largest_other"] = use.largest
    return found


def _waiting(config: LoadConfig, recorder: Recorder) -> tuple[float | None, float | None]:
    """Return the share of an open loop's requests that waited for --max-in-flight, and the p99 delay of the others."""
    if not config.open_loop or not recorder.schedule_delay.count:
        reason = _NONE_SENT if config.open_loop else _CLOSED_LOOP_DELAY
        return unknown(reason), unknown(reason)
    own = recorder.schedule_delay.without(recorder.waited_delay)
    delay_ms = own.percentile(99) if own.count else unknown("every request waited for --max-in-flight")
    return recorder.waited_delay.count / recorder.schedule_delay.count, delay_ms


@explained
def errors_of(by_kind: Mapping[str, int], messages: Mapping[str, list[str]], scheduled: int) -> Errors:
    """Return the figures of the failed requests."""
    count = sum(by_kind.values())
    share = count / scheduled if scheduled else unknown(_NONE_SENT)
    return {"count": count, "share": share, "by_kind": dict(by_kind), "messages": dict(messages)}


def _throughput(config: LoadConfig, recorder: Recorder, duration_s: float) -> Throughput:
    scheduled = _per_s(recorder.scheduled, duration_s) if config.open_loop else unknown(_CLOSED_LOOP_DELAY)
    return {
        "requests_per_s": _per_s(recorder.completed, duration_s),
        "inferences_per_s": _per_s(recorder.completed * config.batch_size, duration_s),
        "achieved_rate": _per_s(recorder.completed, duration_s),
        "goodput": _per_s(_good(config, recorder), duration_s),
        "scheduled_rate": scheduled,
    }


def _good(config: LoadConfig, recorder: Recorder) -> int:
    """Return the number of requests answered within the limit of the latency objective; without one, of all answered.

    They are counted by their schedule, so that late answers of a backlog are not good ones.
    """
    objective = latency_objective(config.slo)
    latency = recorder.latency
    return latency.count if objective is None else latency.total - latency.count_above(objective.limit)


def correctness_of(config: LoadConfig, measured: Measured, golden: Golden | None) -> tuple[Correctness, str | None]:
    """The figures on correctness and, where an output lies outside the limits, which one and how far."""
    quality = _quality(config, measured.labelled)
    if measured.checked is None:
        reason = (
            "no right outputs are known: --input-data FILE.json with validation_data"
            if config.workload.served
            else f"no golden outputs in {config.entry.folder.name}: `{config.entry.export_command()}`, or copy "
            "golden.npz and export.json there"
        )
        return {"output_agreement": unchecked(reason), "quality": quality}, None
    workload = config.workload
    if not workload.served and (config.entry.read_manifest() or {}).get("weights"):
        workload = replace(workload, trained=True)
    agreement, mismatch = agreement_figures(
        measured.checked,
        workload,
        config.precision,
        reference=(golden and golden.origin) or config.workload.reference,
    )
    if mismatch:
        mismatch += f"; {WRONG_FILE if golden and golden.origin else WRONG_EXPORT}"
    return {"output_agreement": agreement, "quality": quality}, mismatch


@explained
def _quality(config: LoadConfig, answers: LabelledAnswers | None) -> Quality:
    """The task's quality; where it cannot be known the run stands, with the reason."""
    asked = config.workload.quality
    found: Quality = {
        "metric": or_unknown(asked.metric if asked else None, "the workload names none"),
        "value": unknown("a load run scores its answers where it is asked to: --quality"),
        "target": or_unknown(asked.target if asked else None, "no target is published"),
        "dataset": or_unknown(config.workload.dataset, "the workload has no data set of its own"),
    }
    if answers is None:
        return found
    try:
        score = quality_of(config, answers)
    except (InputDataError, ValueError) as error:
        return {**found, "value": unknown(str(error))}
    if score is None:
        return {**found, "value": unknown("no labelled example was answered in the measured interval")}
    return {**found, "value": or_unknown(score["figures"][0]["value"], "these examples do not tell it"), "score": score}


@explained
def _energy(config: LoadConfig, measured: Measured) -> EnergyFigures:
    reading, idle = measured.energy.reading, measured.energy.idle
    reason = measured.energy.reason or (reading.reason if reading else None) or "no inference was completed"
    found: EnergyFigures = {**unknown_group(EnergyFigures, reason), "joules_per_request": unknown(reason)}
    found["joules_per_inference_ci95"] = unknown(reason)
    if reading is not None:
        requests = measured.recorder.completed
        joules = reading.joules if requests else None
        found = {
            "joules_per_inference": unknown(reason) if joules is None else joules / requests / config.batch_size,
            "joules_per_inference_ci95": unknown(reason) if joules is None else _energy_interval(config, measured),
            "joules_per_request": unknown(reason) if joules is None else joules / requests,
            "average_w": or_unknown(reading.average_w, reason),
            "idle_w": or_unknown(idle.average_w if idle else None, (idle.reason if idle else None) or reason),
            "joules": or_unknown(reading.joules, reason),
            "source": reading.source,
            "boundary": reading.boundary,
            "window_s": reading.window_s,
            "samples": reading.samples,
        }
    if measured.energy.command is not None:
        found["garbage_lines"] = measured.energy.command.lines.garbage
    return found


def _energy_interval(config: LoadConfig, measured: Measured) -> list[float] | None:
    """Return the interval of the joules of an inference over stretches of the run that the meter tells apart."""
    recorder = measured.recorder
    interval, windows = recorder.interval, recorder.windows
    starts = [interval.start + interval.window(index)[0] * 1e9 for index in range(len(windows))]
    parts = measured.energy.joules_between([*starts, interval.end], [window.completed for window in windows])
    found = quotient_interval([(joules, answers * config.batch_size) for joules, answers in parts])
    needed_s = MINIMUM_PAIRS * measured.energy.resolved_s
    return or_unknown(
        found, f"an interval needs {MINIMUM_PAIRS} parts of the run: measure for {needed_s:.2g} s or more"
    )
