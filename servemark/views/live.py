"""Runs on the terminal while they go on: a line of progress, or a screen, which the process that waits for them draws.

That process has nothing else to do: the load is sent by others, which say through pipes how they stand.
"""

import contextlib
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from loadgen.evaluation.live import descriptor
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.recorder import Recorder
from servemark.figures.registry import in_order, number
from servemark.output import ERRORS, note, printable, say, says, stdout
from servemark.paths import shown
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.run import LiveFigures, Result
from servemark.telemetry.os_threads import start_thread
from servemark.views.render.terminal import show

PLAIN_PROGRESS_S = 5
"""In a pipe a line of progress comes this often; a terminal's line is renewed every second."""
DRAWN_PER_S = 2
ENDED_S = 2.0
"""Maximum wait for the last messages of a run that has ended."""
MAX_SAID = 16 << 20
"""Bytes that are kept of what a run writes meanwhile."""
SECONDS_SHOWN = 60
"""Maximum time span of a sparkline, in seconds."""
WORDS_KEPT = 100
_BARS = "▁▂▃▄▅▆▇█"
_LABEL, _WORDS = 10, 24
"""Widths of the first column, and of the words before a sparkline."""
_NARROWEST = 22
"""Columns of runs that go on at once are at least as wide; those that do not fit stand below."""
_LABELS = ("run", "now", "rate", "p50 ms", "p99 ms", "delay p99", "in flight", "errors", "power", "objective", "so far")
_PLACED = {
    *("throughput.requests", "throughput.inferences", "throughput.goodput", "throughput.scheduled"),
    *("errors.count", "errors.share", "requests.answered", "schedule_delay.late_share"),
}
"""Live figures whose words stand in one of these rows; any other has a row of its own."""


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


class LiveRun:
    """Figures that one run has sent so far; `name` is the run's."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: LiveFigures | None = None
        self._rates: deque[float] = deque(maxlen=SECONDS_SHOWN)
        self._p50: deque[float] = deque(maxlen=SECONDS_SHOWN)
        self._p99: deque[float] = deque(maxlen=SECONDS_SHOWN)
        self.ended = False

    def take(self, figures: LiveFigures) -> None:
        """Take what the run says now."""
        before, self._last = self._last, figures
        if before is not None and (passed_s := figures["time_s"] - before["time_s"]) > 0:
            self._rates.append((figures["answered"] - before["answered"]) / passed_s)
        for kept, value in ((self._p50, figures["second_p50_ms"]), (self._p99, figures["second_p99_ms"])):
            if value is not None:
                kept.append(value)

    def rows(self, width: int, *, stopping: bool) -> dict[str, Text]:
        """Label -> value, some of several lines, in a column of this width; a wide one has room for sparklines."""
        now, bars = self._last, width - _WORDS - 1
        phase = "ended" if self.ended else "stopping" if stopping else "starting" if now is None else _phase(now)
        rows = {"run": Text(self._name), "now": Text(phase)}
        if now is None:
            return rows
        asked = f" (asked {figure(now['asked_rate'])})" if now["asked_rate"] is not None else ""
        seen = f"{figure(self._rates[-1])}/s" if self._rates else "-"
        rows |= {
            "rate": _with_bars(f"{seen}{asked}", self._rates, bars),
            "p50 ms": _with_bars(_value(now, "latency.p50"), self._p50, bars),
            "p99 ms": _with_bars(_value(now, "latency.p99"), self._p99, bars),
            "delay p99": Text(_value(now, "schedule_delay.p99", " ms")),
            "in flight": Text(_in_flight(now)),
            "errors": _errors(now["errors"]),
            "so far": _verdict(now["constraints"]),
        }
        if now["power_w"]:
            rows["power"] = Text(", ".join(f"{watts:.3g} W {name}" for name, watts in now["power_w"].items()))
        if now["objectives"]:
            rows["objective"] = Text("\n").join(_objective(*each) for each in now["objectives"].items())
        for each, _ in in_order(now["figures"]):
            if each.distribution is None and each.tag not in _PLACED:
                rows[each.tag] = Text(_value(now, each.tag, f" {each.unit.name}"))
        return rows


class Screen:
    """All that a terminal shows while runs go on: one, several at once, or one after another."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._runs: Sequence[LiveRun] = ()
        self._words: deque[str] = deque(maxlen=WORDS_KEPT)
        self._stopping = False

    def show(self, *runs: LiveRun) -> None:
        """Show these runs from now on, side by side."""
        self._runs = runs

    def say(self, line: str) -> None:
        """Take a line about what goes on; the last ones are shown, as many as there is room for."""
        self._words.append(line)

    @contextlib.contextmanager
    def until_stopped(self) -> Iterator[None]:
        """Show of a block that is cut short that it ends."""
        try:
            yield
        except BaseException:
            self._stopping = True
            raise

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self._title, no_wrap=True, overflow="ellipsis", style="bold")
        room = options.max_height - 1
        runs, beside = self._runs, max((options.max_width - _LABEL) // (_NARROWEST + 1), 1)
        for first in range(0, len(runs), beside):
            table, lines = self._table(runs[first : first + beside], options.max_width - _LABEL)
            room -= lines
            yield table
        words = list(self._words)[-room:] if room > 0 else []
        yield from (Text(line, no_wrap=True, overflow="ellipsis", style="dim") for line in words)

    def _table(self, runs: Sequence[LiveRun], width: int) -> tuple[Table, int]:
        """A column for each run, and how many lines they take."""
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(style="dim", width=_LABEL, no_wrap=True)
        for _ in runs:
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        columns = [run.rows(width // len(runs) - 1, stopping=self._stopping) for run in runs]
        lines = 0
        others = dict.fromkeys(label for column in columns for label in column if label not in _LABELS)
        for label in (*_LABELS, *others):
            cells = [column.get(label, Text()) for column in columns]
            if any(cells):
                table.add_row(label, *cells)
                lines += max(len(cell.split("\n")) for cell in cells)
        return table, lines


def sparkline(values: Sequence[float], width: int) -> str:
    """The last values as bars from 0 to the largest of them."""
    shown = list(values)[-width:]
    most = max(shown, default=0.0)
    top = len(_BARS) - 1
    return "".join(_BARS[round(top * value / most) if most > 0 else 0] for value in shown)


def _with_bars(words: str, values: Sequence[float], bars: int) -> Text:
    if bars <= 0:
        return Text(words)
    return Text.assemble(f"{words:<{_WORDS}} ", (sparkline(values, bars), "cyan"))


def _value(now: LiveFigures, tag: str, unit: str = "") -> str:
    found = number(now["figures"], tag)
    return "-" if found is None else f"{figure(found)}{unit}"


def _phase(now: LiveFigures) -> str:
    elapsed_s, whole_s = now["elapsed_s"], now["whole_s"]
    if elapsed_s < 0:
        return f"warm-up, {'at most ' if now['auto_warmup'] else ''}{-elapsed_s:.0f} s left"
    if elapsed_s >= whole_s:
        return f"{whole_s:g} s measured, waiting for answers"
    return f"measuring, {whole_s - elapsed_s:.0f} of {whole_s:g} s left"


def _in_flight(now: LiveFigures) -> str:
    waiting = f", {now['backlog']:,} wait to be sent" if now["backlog"] else ""
    queue = "" if now["queue"] is None else f", {now['queue']:,.0f} in the server's queue"
    return f"{now['in_flight']:,}{waiting}{queue}"


def _errors(errors: Mapping[str, int]) -> Text:
    if not errors:
        return Text("0")
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(errors.items(), key=lambda each: -each[1]))
    return Text(f"{sum(errors.values()):,}: {kinds}", style="red")


def _objective(name: str, status: str) -> Text:
    style = {"met": "green", "missed": "bold red"}.get(status, "")
    return Text.assemble(f"{name} ", (status.upper(), style))


def _verdict(constraints: Mapping[str, bool]) -> Text:
    if not constraints:
        return Text("not judged yet")
    failed = [name for name, ok in constraints.items() if not ok]
    if failed:
        return Text.assemble(("INVALID", "bold red"), f" {', '.join(failed)}")
    return Text.assemble(("VALID", "bold green"), f" {len(constraints)} constraints hold")


class Drawing:
    """Feeds a screen from pipes that runs write to, and from messages of this process."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._runs: dict[str, LiveRun] = {}
        self._said = bytearray()
        self._open = True
        said_by_runs, self.words = os.pipe()
        start_thread(lambda: self._follow_words(said_by_runs))

    def started(self, *names: str) -> None:
        """Show these runs from now on, side by side."""
        self._runs = {name: LiveRun(name) for name in names}
        self.screen.show(*self._runs.values())

    @contextlib.contextmanager
    def figures_of(self, name: str) -> Iterator[int]:
        """Start the run in this block, which gives it the end of a pipe that takes lines of JSON."""
        run = self._runs[name]
        reading, writing = os.pipe()
        start_thread(lambda: _follow_figures(reading, run))
        try:
            yield writing
        finally:
            os.close(writing)

    def say(self, line: str) -> None:
        """Show a line, and keep it."""
        self._keep(f"{line}\n".encode())

    def end(self) -> str:
        """All that was said. What a run has started may hold the pipe for longer: it is not waited for."""
        os.close(self.words)
        deadline = time.monotonic() + ENDED_S
        while self._open and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._said.decode(errors="replace")

    def _follow_words(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as pipe:
            while data := pipe.read(1 << 16):
                self._keep(data)
        self._open = False

    def _keep(self, data: bytes) -> None:
        if len(self._said) < MAX_SAID:
            self._said += data
        for line in data.decode(errors="replace").splitlines():
            if line.strip():
                self.screen.say(printable(line))


def _follow_figures(descriptor: int, run: LiveRun) -> None:
    rest = b""
    with open(descriptor, "rb", buffering=0) as pipe:
        while data := pipe.read(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                # A line that was cut off because the pipe was full is passed over.
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    run.take(json.loads(line))
    run.ended = True


@contextlib.contextmanager
def drawn_where_seen(screen: Screen, *, quiet: bool, grace_s: float) -> Iterator[Drawing | None]:
    """Draw a screen until the block ends, in the terminal's other buffer; then the terminal is as it was.

    What was said meanwhile is written after it, to stderr. None where nobody looks, or where stderr is no terminal that
    can move its cursor: there a run prints lines of its own. Metrics that linger would keep the report from the
    terminal.
    """
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    can_draw = console.is_terminal and not console.is_dumb_terminal and sys.stdout.isatty() and not says(ERRORS)
    if quiet or grace_s or not can_draw:
        yield None
        return
    drawing = Drawing(screen)
    live = Live(
        get_renderable=lambda: screen,
        console=console,
        screen=True,
        refresh_per_second=DRAWN_PER_S,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    try:
        with live, screen.until_stopped():
            yield drawing
    finally:
        say(drawing.end())
