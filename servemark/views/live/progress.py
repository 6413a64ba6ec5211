"""One run on the terminal: a line of progress while it goes on, then its result."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from loadgen.evaluation.live import descriptor
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.recorder import Recorder
from servemark.output import ERRORS, note, say, says, stdout
from servemark.paths import shown
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.run import Result
from servemark.views.render.terminal import show

PLAIN_PROGRESS_S = 5
"""In a pipe a line of progress comes this often; a terminal's line is renewed every second."""


def report(directory: Path, result: Result) -> None:
    """Print a result, and where it is kept."""
    show(Saved(directory.name, dict(result), directory), stdout(kept=True))
    note(f"result: {shown(directory)}")


def ended(directory: Path, result: Result) -> None:
    """Print the result of a run of this process in the place of its progress, where no other process does."""
    if says(ERRORS) or descriptor() is not None:
        return
    if sys.stderr.isatty():
        say("\r\x1b[K")
    report(directory, result)


def progress(config: LoadConfig) -> Callable[[float, Recorder], None]:
    """Return the function that shows where the run is, where no other process does."""
    if descriptor() is not None:
        return lambda _elapsed_s, _recorder: None
    terminal = sys.stderr.isatty()
    calls = 0

    def show(elapsed_s: float, recorder: Recorder) -> None:
        nonlocal calls
        calls += 1
        if not terminal and calls % PLAIN_PROGRESS_S:
            return
        whole_s = (recorder.interval.end - recorder.interval.start) / 1e9
        if elapsed_s < 0:
            most = "at most " if config.scenario.auto_warmup else ""
            phase = f"warm-up {most}{-elapsed_s:.0f} s left"
        else:
            phase = f"{elapsed_s:.0f}/{whole_s:g} s" if elapsed_s < whole_s else f"{whole_s:g} s, waiting for answers"
        latency = recorder.latency
        figures = (
            f"  p50 {figure(latency.percentile(50))} ms  max {figure(latency.max_ns / 1e6)} ms" if latency.count else ""
        )
        line = f"{config.model}  {phase}  {recorder.scheduled:,} requests{figures}  {recorder.errors.total()} errors"
        say(f"\r\x1b[K{line}" if terminal else f"{datetime.now(UTC):%H:%M:%S} {line}\n")

    return show
