"""The evidence that a measurement gathered, from which its figures are computed, and what is not a number.

Details are kinds of failure, the energy meter, the clock, a pipeline's models, and the quality of the answers.
"""

import time
from dataclasses import dataclass, replace

from loadgen.driver.observers import LabelledAnswers
from loadgen.inputs.sources import labelled_set, metric_of
from loadgen.kserve.control import TIMEOUT_S
from loadgen.kserve.model_documents import batch_sizes, composing_models
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.interval_edges import SERVER, MachineUse
from loadgen.measurement.measurement import Measured, Measurement
from loadgen.measurement.recorder import Recorder
from loadgen.transport.server_url import is_secure
from loadgen.variants.servers import ServerRecorder
from servemark.errors import InputDataError
from servemark.figures.evidence import Energy, Evidence, Generator
from servemark.figures.latency import LATENCY
from servemark.figures.registry import figures_of
from servemark.figures.server import Statistics
from servemark.figures.value import COUNT, SHARE, FigureValue, Value
from servemark.machine.cpu_time import CpuUse
from servemark.quality.document import score, weights_of
from servemark.quality.scoring import NO_ANSWER, Answers, rows_of
from servemark.repository.entry import Golden
from servemark.results.objectives import latency_objective
from servemark.results.schema.details import (
    BOTH,
    KERNEL,
    PROCESS,
    CpuDetails,
    Details,
    EnergyDetails,
    ErrorDetails,
    OneOfSeveral,
    OutputAgreement,
    OutputDetails,
    QualityDetails,
    QualityScore,
    ServerDetails,
)
from servemark.stats.unknown import explained, or_unknown, unknown
from servemark.workload.golden_check import agreement_figures, unchecked

MAX_UNSTAMPED_SHARE = 0.01
"""Up to this share of readings without a stamp that holds, a run counts as timed by the kernel."""
_NO_COUNTERS = f"the server did not give its counters within {TIMEOUT_S:g} s when the interval began or ended"
WRONG_EXPORT = "export again with --force; if that does not help, the engine computes something else"
WRONG_FILE = "correct the file, or the model"
"""Advice if answers differ from those in a user's file."""


@dataclass(frozen=True)
class Scored:
    """The task's quality, its target, and the whole score; where it cannot be known the run stands, with the reason."""

    value: Value
    target: Value
    score: QualityScore | None = None

    @classmethod
    def of(cls, config: LoadConfig, answers: LabelledAnswers | None) -> "Scored":
        """Score the answers that were kept, None where none were to be."""
        asked = config.workload.quality
        target = Value.of(asked.target if asked else None, "no target is published")
        if answers is None:
            return cls(Value.unknown("a load run scores its answers where it is asked to: --quality"), target)
        try:
            found = _score(config, answers)
        except (InputDataError, ValueError) as error:
            return cls(Value.unknown(str(error)), target)
        if found is None:
            return cls(Value.unknown("no labelled example was answered in the measured interval"), target)
        return cls(Value.of(found["figures"][0]["value"], "these examples do not tell it"), target, found)


def _score(config: LoadConfig, answers: LabelledAnswers) -> QualityScore | None:
    """Score what was kept, by the labels of the data set; None where nothing was. Raises InputDataError."""
    if not answers.kept:
        return None
    workload, data = config.workload, labelled_set(config)
    (metric, asked), tensors = metric_of(config), workload.outputs
    scored = []
    for number, (answer, row, error) in answers.kept.items():
        of_example = Answers(data, number, data.example(number))
        if answer is None or error is not None:
            of_example.failed(0, error or NO_ANSWER)
        else:
            try:
                of_example.answered(0, list(rows_of(answer.arrays(tensors), tensors))[row])
            except ValueError:  # it has the sizes of the outputs, and not their values
                of_example.failed(0, "malformed_response")
        scored.append(of_example.scored_by(metric))
    return score(
        metric,
        asked,
        scored,
        weights=weights_of(workload, config.entry),
        source=config.input_data if config.input_data != "dataset" else str(workload.dataset),
        size=data.size,
        samples=len(scored),
        seed=config.seed,
        continued=0,
    )


def evidence_of(measurement: Measurement, measured: Measured, agreement: OutputAgreement, scored: Scored) -> Evidence:
    """Collect what a measurement saw."""
    config, recorder, target = measurement.config, measured.recorder, measurement.target
    asked = config.server.request_compression != "none", config.server.response_compression != "none"
    return replace(
        evidence_of_recorder(config, recorder, measured.measured_s),
        windows=[window.latency for window in recorder.windows],
        agreement=agreement,
        quality=scored.value,
        quality_target=scored.target,
        energy=_energy(config, measured),
        statistics=_statistics(measurement, measured),
        generator=_generator(measurement, measured),
        cpu=cpu_use(measured.machine),
        compression=target.volume,
        compressed=asked,
    )


def so_far(config: LoadConfig, recorder: Recorder) -> tuple[float, dict[str, FigureValue]]:
    """Return the seconds that passed, and the live figures of a run that goes on, without intervals."""
    interval = recorder.interval
    passed_s = max(min(time.monotonic_ns(), interval.end) - interval.start, 0) / 1e9
    return passed_s, figures_of(replace(evidence_of_recorder(config, recorder, passed_s), live=True))


def evidence_of_recorder(config: LoadConfig, recorder: Recorder, measured_s: float) -> Evidence:
    """Collect what was recorded of the requests."""
    return Evidence(
        open_loop=config.open_loop,
        batch_size=config.batch_size,
        measured_s=measured_s,
        latency=recorder.latency,
        service_time=recorder.service_time,
        schedule_delay=recorder.schedule_delay,
        waited_delay=recorder.waited_delay,
        scheduled=recorder.scheduled,
        completed=recorder.completed,
        good=_good(config, recorder),
        late=recorder.late,
        errors=recorder.errors,
        clock=recorder.clock,
        sequences=recorder.sequences,
        answers=recorder.answers,
        connections=recorder.connection_times,
        secure=is_secure(config.url),
        cancellation=recorder.cancelled,
    )


def _good(config: LoadConfig, recorder: Recorder) -> int:
    """Return the number of requests answered within the limit of the latency objective; without one, of all answered.

    They are counted by their schedule, so that late answers of a backlog are not good ones.
    """
    objective = latency_objective(config.slo)
    latency = recorder.latency
    return latency.count if objective is None else latency.total - latency.count_above(objective.limit)


def cpu_use(machine: MachineUse) -> CpuUse | str:
    """Return who used the cores, or why that is not known."""
    return machine.reason if machine.use is None else machine.use


def _statistics(measurement: Measurement, measured: Measured) -> tuple[Statistics, Statistics] | str:
    found = measured.statistics
    if found.before is None or found.after is None:
        return _NO_COUNTERS if found.available else measurement.target.no_statistics
    return found.before, found.after


def _generator(measurement: Measurement, measured: Measured) -> Generator:
    recorder, telemetry = measured.recorder, measurement.telemetry
    return Generator(
        cpu_utilization=measured.cpu_utilization,
        max_in_flight=measured.load.peak_in_flight,
        sampling_cpu_utilization=telemetry.cpu_utilization if telemetry else None,
        workers=len(measured.load.workers) or 1,
        outside=recorder.outside + (recorder.cancelled.outside if recorder.cancelled else 0),
        cpu_latency=measured.load.cpu_latency,
    )


def _energy(config: LoadConfig, measured: Measured) -> Energy:
    reading, idle = measured.energy.reading, measured.energy.idle
    reason = measured.energy.reason or (reading.reason if reading else None) or "no inference was completed"
    if reading is None:
        return Energy(reason=reason)
    interval, windows = measured.recorder.interval, measured.recorder.windows
    parts = measured.energy.joules_between(interval.edges, [window.completed for window in windows])
    return Energy(
        joules=reading.joules,
        average_w=reading.average_w,
        idle_w=idle.average_w if idle else None,
        idle_reason=idle.reason if idle else None,
        window_s=reading.window_s,
        samples=reading.samples,
        reason=reason,
        parts=[(joules, answers * config.batch_size) for joules, answers in parts],
        resolved_s=measured.energy.resolved_s,
    )


def agreement_of(config: LoadConfig, measured: Measured, golden: Golden | None) -> tuple[OutputAgreement, str | None]:
    """Return the agreement of the answers and, where an output lies outside the limits, which one and how far."""
    if measured.checked is None:
        reason = (
            "no right outputs are known: --input-data FILE.json with validation_data"
            if config.workload.served
            else f"no golden outputs in {config.entry.folder.name}: `{config.entry.export_command()}`, or copy "
            "golden.npz and export.json there"
        )
        return unchecked(reason), None
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
    return agreement, mismatch


@explained
def details_of(
    measurement: Measurement, measured: Measured, evidence: Evidence, agreement: OutputAgreement, scored: Scored
) -> Details:
    """Collect what is not a number."""
    recorder = measured.recorder
    found: Details = {
        "errors": error_details(recorder),
        "outputs": output_details(agreement),
        "quality": _quality_details(measurement, scored),
        "energy": _energy_details(measured),
        "server": _server_details(evidence),
        "generator": measured.load.granted.to_dict(),
        "clock": {"receive": receive_clock(recorder)},
        "cpu": cpu_details(evidence),
    }
    if recorder.cancelled is not None:
        found["cancellation"] = {"failed": dict(recorder.cancelled.failed)}
    if recorder.servers is not None:
        found["servers"] = _servers(recorder.servers)
    return found


def error_details(recorder: Recorder) -> ErrorDetails:
    """Return the failed requests by kind, also while the run goes on."""
    return {"by_kind": dict(recorder.errors), "messages": dict(recorder.messages)}


def receive_clock(recorder: Recorder) -> str:
    """Name the clock of the answers' times: the kernel's, the process's, or both where stamps were missing at times."""
    clock = recorder.clock
    if clock is None or clock.missing >= recorder.answered:
        return PROCESS
    return KERNEL if clock.missing + clock.refused <= MAX_UNSTAMPED_SHARE * recorder.answered else BOTH


def output_details(agreement: OutputAgreement) -> OutputDetails:
    """Return what the agreement was judged by."""
    found: OutputDetails = {}
    if "tolerance" in agreement:
        found["tolerance"] = agreement["tolerance"]
    if "weights" in agreement:
        found["weights"] = agreement["weights"]
    return found


def cpu_details(evidence: Evidence) -> CpuDetails:
    """Name the processes that were counted as the server, and those of the other work that used most."""
    use = evidence.cpu
    found: CpuDetails = {}
    if isinstance(use, str):
        return found
    if served := use.members.get(SERVER):
        found["server_processes"] = served
    if use.largest:
        found["largest_other"] = use.largest
    return found


def _quality_details(measurement: Measurement, scored: Scored) -> QualityDetails:
    workload = measurement.config.workload
    found: QualityDetails = {
        "metric": or_unknown(workload.quality.metric if workload.quality else None, "the workload names none"),
        "dataset": or_unknown(workload.dataset, "the workload has no data set of its own"),
    }
    if scored.score is not None:
        found["score"] = scored.score
    return found


def _energy_details(measured: Measured) -> EnergyDetails:
    reading, command = measured.energy.reading, measured.energy.command
    reason = measured.energy.reason or "nothing was metered"
    found: EnergyDetails = {
        "source": reading.source if reading else unknown(reason),
        "boundary": reading.boundary if reading else unknown(reason),
    }
    if command is not None:
        found["garbage_lines"] = command.lines.garbage
    return found


def _server_details(evidence: Evidence) -> ServerDetails:
    if isinstance(evidence.statistics, str):
        return {"batch_sizes": unknown(evidence.statistics)}
    found: ServerDetails = {"batch_sizes": batch_sizes(*evidence.statistics)}
    if models := composing_models(*evidence.statistics):
        found["composing"] = models
    return found


def _servers(found: ServerRecorder) -> list[OneOfSeveral]:
    return [
        {
            "url": url,
            "figures": {
                **LATENCY.values(latency),
                "requests.answered": Value(latency.count).to_dict(COUNT),
                "errors.count": Value(errors.total()).to_dict(COUNT),
                "errors.share": Value(errors.total() / latency.total if latency.total else None).to_dict(SHARE),
            },
            "errors_by_kind": dict(errors),
        }
        for url, latency, errors in zip(found.urls, found.latency, found.errors, strict=True)
    ]
