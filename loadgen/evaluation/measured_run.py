"""Runs a measurement and keeps its result: written before, after and where it is cut short."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from loadgen.evaluation.live import Live, descriptor, feed
from loadgen.evaluation.result import complete, header, histograms
from loadgen.measurement.measurement import Measurement, PreparedLoad
from servemark import interrupts
from servemark.errors import ResultError
from servemark.output import note, stdout
from servemark.results import directory as results
from servemark.results.schema.run import PendingResult, Result
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
        with Publisher(config.metrics) if config.metrics.any else contextlib.nullcontext() as publisher:
            results.require_room(config.result_dir or config.out)  # before the first request
            prepared = measurement.prepare()
            directory = config.result_dir or results.new_directory(config.out, config.model)
            result = header(measurement)
            results.write(directory, result)
            on_written(directory, result)
            live = Live(measurement, publisher, result, directory) if publisher else None
            measurement.on_second = [live.publish] if live else []
            if (drawn_by := descriptor()) is not None:
                measurement.on_second.append(feed(measurement, drawn_by))
            whole = _run(measurement, prepared, directory, result, on_written, on_end)
            if live is not None:
                whole = _told(live, whole, directory, measurement, on_written)
                live.linger()
            return whole
    finally:
        with interrupts.finishing():
            measurement.target.close()


def _run(
    measurement: Measurement,
    prepared: PreparedLoad,
    directory: Path,
    pending: PendingResult,
    on_written: Written,
    on_end: Ended,
) -> Result:
    result: Result | None = None
    try:
        measurement.run(prepared, directory)
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
    except Exception:
        # A disk that filled up during the run, or a fault of ours: the figures must not be lost with it.
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
