"""Runs a measurement and keeps its result: written before, after and where it is cut short."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from loadgen.evaluation.evidence import Scored, agreement_of, details_of, evidence_of, evidence_of_recorder
from loadgen.evaluation.live import Live, descriptor, feed
from loadgen.evaluation.observations import observe, windows_of_stages
from loadgen.load.load_config import LoadConfig
from loadgen.load.warm_up import WarmUpOutcome
from loadgen.measurement.measurement import Measured, Measurement
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Window, window_figures
from servemark import interrupts
from servemark.errors import ResultError
from servemark.figures.latency import LATENCY
from servemark.figures.registry import distributions, figures_of
from servemark.figures.value import COUNT, REQUESTS_PER_S, Value
from servemark.output import note, stdout
from servemark.results import directory as results
from servemark.results.bottleneck import bottleneck
from servemark.results.constraints import judge
from servemark.results.objectives import latency_objective
from servemark.results.schema.details import ColdStart, CommandRun, StageFigures, WindowFigures
from servemark.results.schema.header import opening
from servemark.results.schema.run import PendingResult, Result, Scenario
from servemark.results.served_config import recorded
from servemark.results.transients import cold_start, recovery
from servemark.stats.histogram import Histogram
from servemark.stats.trend import METHOD
from servemark.stats.unknown import explained, or_unknown
from servemark.telemetry.metrics.publisher import Publisher

Written = Callable[[Path, Result | PendingResult], None]
Ended = Callable[[Path, Result], None]


def _unseen(directory: Path, result: Result | PendingResult) -> None:
    """Nobody else looks at the result."""


def record(measurement: Measurement, on_written: Written = _unseen, on_end: Ended = _unseen) -> Result:
    """Measure, and write the result directory. Raises ServemarkError where nothing could be measured.

    `on_written` sees the result each time it has been written: before the run and after it. `on_end` sees it once, when
    the run has ended, also where it could not be written.
    """
    config = measurement.config
    try:
        with Publisher(config.live) if config.live.publishes else contextlib.nullcontext() as publisher:
            results.require_room(config.result_dir or config.out)  # before the first request
            measurement.prepare()
            directory = config.result_dir or results.new_directory(config.out, config.model)
            result = header(measurement)
            results.write(directory, result)
            on_written(directory, result)
            live = Live(measurement, publisher, result, directory) if publisher else None
            measurement.on_second = [live.publish] if live else []
            if (drawn_by := descriptor()) is not None:
                measurement.on_second.append(feed(measurement, drawn_by))
            whole = _run(measurement, directory, result, on_written, on_end)
            if live is not None:
                whole = _told(live, whole, directory, measurement, on_written)
                live.linger()
            return whole
    finally:
        with interrupts.finishing():
            measurement.target.close()


def _run(
    measurement: Measurement,
    directory: Path,
    pending: PendingResult,
    on_written: Written,
    on_end: Ended,
) -> Result:
    result: Result | None = None
    try:
        measurement.run(directory)
    finally:
        # Also when it was interrupted or crashed: what was measured is kept, marked partial.
        if measurement.measured is not None:
            with interrupts.finishing():
                result = complete(pending, measurement)
                try:
                    _write(directory, result, histograms(measurement.config, measurement.measured.recorder))
                    _write_series(directory, measurement)
                    on_written(directory, result)
                finally:
                    on_end(directory, result)
    assert result is not None
    return result


def _told(live: Live, result: Result, directory: Path, measurement: Measurement, on_written: Written) -> Result:
    """Send the final figures; the result, which is on the disk by then, with what became of that."""
    with interrupts.finishing():
        sent = live.finish(result)
        if sent and measurement.measured is not None:
            result = {**result, "telemetry": sent}
            with contextlib.suppress(ResultError):
                results.write(directory, result, histograms(measurement.config, measurement.measured.recorder))
                on_written(directory, result)
    return result


def _write(directory: Path, result: Result, histograms: dict[str, str]) -> None:
    try:
        results.write(directory, result, histograms)
    except Exception:  # a disk that filled up during the run, or a fault of ours: the figures are not lost with it
        stdout(kept=True).print(json.dumps(result, indent=2, default=str), soft_wrap=True)
        raise


def _write_series(directory: Path, measurement: Measurement) -> None:
    """Write what was read of the machines; a result is whole without it."""
    measured, telemetry = measurement.measured, measurement.telemetry
    if measured is None or telemetry is None:
        return
    interval = measured.recorder.interval
    document = telemetry.to_dict((interval.start, interval.start + round(measured.measured_s * 1e9)))
    if document is not None:
        try:
            results.write_series(directory, document)
        except ResultError as error:
            note(f"series.json is missing: {error}")


@explained
def header(measurement: Measurement) -> PendingResult:
    """Make the part of the result that is known before the run; written first, marked partial."""
    config, placement, target = measurement.config, measurement.placement, measurement.target
    workload = config.workload
    manifest = {} if workload.served else config.entry.read_manifest() or {}
    silent = "the server does not report it, or its metrics are not known: --metrics-url http://HOST:PORT/metrics"
    nowhere = (
        "the model is the server's own"
        if workload.served
        else f"no {config.entry.manifest.name} beside the local model"
    )
    served, digest = recorded(placement.model_config, silent)
    begun = opening()
    result: PendingResult = {
        "schema_version": begun["schema_version"],
        "kind": "load",
        "created": begun["created"],
        "command": begun["command"],
        "environment": begun["environment"],
        "request": config.to_dict(),
        "resolved": target.config,
        "seed": config.seed,
        "workload": workload.name,
        "task": workload.task,
        "suites": list(workload.suites),
        "engine": or_unknown(placement.engine, silent),
        "device": or_unknown(placement.device, silent),
        "provider": or_unknown(placement.provider, silent),
        "precision": or_unknown(manifest.get("precision"), nowhere),
        "model_config": served,
        "model_config_sha256": digest,
        "artifact_sha256": or_unknown(manifest.get("artifact_sha256"), nowhere),
        "batch_size": config.batch_size,
        "protocol": target.protocol,
        "shared_memory": target.shared_memory,
        "scenario": config.scenario.to_dict(),
        "verdict": None,
        "bottleneck": None,
        "figures": None,
        "details": None,
        "windows": [],
        "stages": [],
        "partial": True,
    }
    if brought := manifest.get("weights") or manifest.get("source"):  # weights for a network, or the whole model file
        result["weights_sha256"] = brought["sha256"]
    return result


def complete(result: PendingResult, measurement: Measurement) -> Result:
    """The whole result, from its header and what was measured."""
    config, measured = measurement.config, measurement.measured
    assert measured is not None
    agreement, mismatch = agreement_of(config, measured, measurement.golden)
    scored = Scored.of(config, measured.load.labelled)
    evidence = evidence_of(measurement, measured, agreement, scored)
    figures, details = figures_of(evidence), details_of(measurement, measured, evidence, agreement, scored)
    windows = _windows(config, measured)
    commands = _commands(windows, measured)
    cold = _cold_start(config, windows, measured) if config.server.cold_start else None
    verdict = judge(observe(config, measured, mismatch, figures, commands, cold))
    whole: Result = {
        **result,
        "scenario": _scenario(result["scenario"], config, measured),
        "verdict": verdict,
        "bottleneck": bottleneck(
            figures, details, verdict, open_loop=config.open_loop, in_process=config.server.in_process
        ),
        "figures": figures,
        "details": details,
        "windows": _of_server(windows, measured),
        "stages": _stages(config, measured),
        "partial": measured.load.interrupted is not None,
    }
    if config.live.at:
        whole["commands"] = commands
    if cold is not None:
        whole["cold_start"] = cold
    if measured.load.workers:
        whole["workers"] = measured.load.workers
    return whole


def _scenario(asked: Scenario, config: LoadConfig, measured: Measured) -> Scenario:
    """The load with its measured seconds, and the findings of a warm-up that ends by itself."""
    scenario: Scenario = {**asked, "measured_s": round(measured.measured_s, 6)}
    if not config.scenario.auto_warmup:
        return scenario
    found = measured.load.warmed or WarmUpOutcome(None, None, None, "the run was cut short in its warm-up")
    scenario["warmup_s"] = found.seconds
    scenario["warmup"] = {
        "method": METHOD,
        "longest_s": config.warmup_s,
        "steady": found.steady,
        "steady_from_s": found.steady_from_s,
    }
    if found.reason:
        scenario["warmup"]["reason"] = found.reason
    return scenario


def histograms(config: LoadConfig, recorder: Recorder) -> dict[str, str]:
    """Return the run's distributions in HdrHistogram's V2 base64 format, values in µs."""
    evidence = evidence_of_recorder(config, recorder, 0.0)
    found = {tag: each.of(evidence) for tag, each in distributions().items()}
    return {f"{tag}_us": each.encode() for tag, each in found.items() if isinstance(each, Histogram)}


@explained
def _of_server(windows: list[WindowFigures], measured: Measured) -> list[WindowFigures]:
    """The same windows, each with the server's figures where its counters were read."""
    if measured.server_windows is None:
        return windows
    of_server = measured.server_windows.figures(len(windows))
    return [{**window, "server": server} for window, server in zip(windows, of_server, strict=True)]


def _windows(config: LoadConfig, measured: Measured) -> list[WindowFigures]:
    """The windows that have begun; the last one of a run that was cut short is a part of one."""
    interval, measured_s = measured.recorder.interval, measured.measured_s
    slo = latency_objective(config.slo)
    limit_ms = slo.limit if slo else None
    if measured.recorder.seconds is not None:
        return measured.recorder.seconds.figures(measured_s, limit_ms)
    placed = [(*interval.window(index), window) for index, window in enumerate(measured.recorder.windows)]
    return [
        window_figures(s, min(length_s, measured_s - s), w.latency, w.completed, w.errors, limit_ms)
        for s, length_s, w in placed
        if s < measured_s
    ]


def _commands(windows: list[WindowFigures], measured: Measured) -> list[CommandRun]:
    """The commands that were run beside the load, each with the recovery from it."""
    begins = [0.0, *(ran["at_s"] for ran in measured.commands)]
    return [
        {**ran, **recovery(windows, ran["at_s"], before_s)}
        for ran, before_s in zip(measured.commands, begins, strict=False)
    ]


def _cold_start(config: LoadConfig, windows: list[WindowFigures], measured: Measured) -> ColdStart:
    """The start of the server, and how it answered until it was steady."""
    first_ns, began_ns = measured.recorder.first_answer_ns, measured.recorder.interval.start
    return cold_start(
        [window for window in windows if window["start_s"] + 1 <= measured.measured_s],
        load_s=config.startup.load_s if config.startup else None,
        waited_s=(began_ns - config.startup.ready_ns) / 1e9 if config.startup else None,
        first_answer_ms=None if first_ns is None else first_ns / 1e6,
    )


def _stages(config: LoadConfig, measured: Measured) -> list[StageFigures]:
    """Each stage's own figures: of the requests scheduled in it, but for the responses that came in it."""
    out: list[StageFigures] = []
    start_s = 0.0
    for stage, windows in windows_of_stages(config, measured.recorder):
        seconds = min(stage.duration_s, measured.measured_s - start_s)
        if seconds > 0:
            whole = Window.joined(windows)
            out.append(
                {
                    "start_s": round(start_s, 6),
                    "duration_s": stage.duration_s,
                    "requested_rate": stage.mean_rate,
                    "scheduled": whole.scheduled,
                    "figures": {
                        **LATENCY.values(whole.latency, [window.latency for window in windows]),
                        "errors.count": Value(whole.errors).to_dict(COUNT),
                        "throughput.requests": Value(whole.completed / seconds).to_dict(REQUESTS_PER_S),
                    },
                }
            )
        start_s += stage.duration_s
    return out
