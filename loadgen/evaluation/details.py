"""Details of a run, which are no numbers: kinds of failure, the meter, the clock, a pipeline's models."""

from loadgen.evaluation.evidence import Scored
from loadgen.kserve.server_statistics import batch_sizes, composing_models
from loadgen.measurement.interval_edges import SERVER
from loadgen.measurement.measurement import Measured, Measurement
from loadgen.measurement.recorder import Recorder
from loadgen.variants.servers import ServerRecorder
from servemark.figures.evidence import Evidence
from servemark.figures.latency import LATENCY
from servemark.figures.value import COUNT, SHARE, Value
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
    ServerDetails,
)
from servemark.stats.unknown import explained, or_unknown, unknown

MAX_UNSTAMPED_SHARE = 0.01
"""Up to this share of readings without a stamp that holds, a run counts as timed by the kernel."""


@explained
def details_of(
    measurement: Measurement, measured: Measured, evidence: Evidence, agreement: OutputAgreement, scored: Scored
) -> Details:
    """Collect what is not a number."""
    recorder = measured.recorder
    found: Details = {
        "errors": error_details(recorder),
        "outputs": output_details(agreement),
        "quality": _quality(measurement, scored),
        "energy": _energy(measured),
        "server": _server(evidence),
        "generator": measured.granted.to_dict(),
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


def _quality(measurement: Measurement, scored: Scored) -> QualityDetails:
    workload = measurement.config.workload
    found: QualityDetails = {
        "metric": or_unknown(workload.quality.metric if workload.quality else None, "the workload names none"),
        "dataset": or_unknown(workload.dataset, "the workload has no data set of its own"),
    }
    if scored.score is not None:
        found["score"] = scored.score
    return found


def _energy(measured: Measured) -> EnergyDetails:
    reading, command = measured.energy.reading, measured.energy.command
    reason = measured.energy.reason or "nothing was metered"
    found: EnergyDetails = {
        "source": reading.source if reading else unknown(reason),
        "boundary": reading.boundary if reading else unknown(reason),
    }
    if command is not None:
        found["garbage_lines"] = command.lines.garbage
    return found


def _server(evidence: Evidence) -> ServerDetails:
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
