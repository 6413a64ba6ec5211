"""A run that goes on, on the terminal: what it last said of itself, drawn by the process that waits for it."""

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from servemark.report.words import figure, rate

SECONDS_SHOWN = 60
"""How long a sparkline reaches back at most."""
WORDS_SHOWN = 3
_BARS = "▁▂▃▄▅▆▇█"
_LABEL, _WORDS = 10, 24
"""Widths of the first column, and of the words before a sparkline."""
_BEFORE_BARS = _LABEL + 1 + _WORDS + 1


class LiveFigures(TypedDict):
    """What a run says of itself about once a second. Times in ms where the name says so; null: not known yet."""

    time_s: float
    """Of the monotonic clock."""
    elapsed_s: float
    """Of the measured interval; below 0 in the warm-up."""
    auto_warmup: bool
    """Whether the warm-up may end sooner."""
    whole_s: float
    answered: int
    """Good answers so far, those of the warm-up included."""
    asked_rate: float | None
    """Requests/s that the schedule asks for now; null in a closed loop and of a trace."""
    p50_ms: float | None
    p99_ms: float | None
    second_p50_ms: float | None
    """Of the requests that were answered since the figures before."""
    second_p99_ms: float | None
    delay_p99_ms: float | None
    in_flight: int
    backlog: int
    queue: float | None
    """Requests that wait in the server, as its own metrics say."""
    errors: dict[str, int]
    power_w: dict[str, float]
    """What is metered -> its power now."""
    constraints: dict[str, bool]
    """Those that can be judged so far."""
    objectives: dict[str, str]
    """Objective -> met, missed or undecided so far."""


class LiveView:
    """All that is shown of one run; `title` says which."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last: LiveFigures | None = None
        self._rates: deque[float] = deque(maxlen=SECONDS_SHOWN)
        self._p50: deque[float] = deque(maxlen=SECONDS_SHOWN)
        self._p99: deque[float] = deque(maxlen=SECONDS_SHOWN)
        self._words: deque[str] = deque(maxlen=WORDS_SHOWN)
        self.stopping = False

    def take(self, figures: LiveFigures) -> None:
        """Take what the run says now."""
        before, self._last = self._last, figures
        if before is not None and (passed_s := figures["time_s"] - before["time_s"]) > 0:
            self._rates.append((figures["answered"] - before["answered"]) / passed_s)
        for kept, value in ((self._p50, figures["second_p50_ms"]), (self._p99, figures["second_p99_ms"])):
            if value is not None:
                kept.append(value)

    @contextlib.contextmanager
    def until_stopped(self) -> Iterator[None]:
        """Show of a block that is cut short that it ends."""
        try:
            yield
        except BaseException:
            self.stopping = True
            raise

    def say(self, line: str) -> None:
        """Take a line that the run has written."""
        self._words.append(line)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table.grid(padding=(0, 1))
        table.add_column(style="dim", width=_LABEL, no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for label, value in [] if self._last is None else self._rows(self._last, options.max_width - _BEFORE_BARS):
            table.add_row(label, value)
        words = [Text(line, no_wrap=True, overflow="ellipsis", style="dim") for line in self._words]
        phase = "stopping" if self.stopping else "starting" if self._last is None else _phase(self._last)
        head = Text(self._title, no_wrap=True, overflow="ellipsis", style="bold")
        yield head
        yield Text(phase, no_wrap=True, overflow="ellipsis")
        yield table
        yield from words

    def _rows(self, now: LiveFigures, bars: int) -> list[tuple[str, Text]]:
        """Label and value of each line; a sparkline has room for so many bars."""
        asked = f" (asked {rate(now['asked_rate'])})" if now["asked_rate"] is not None else ""
        seen = f"{rate(self._rates[-1])}/s" if self._rates else "-"
        rows = [
            ("rate", _with_bars(f"{seen}{asked}", self._rates, bars)),
            ("p50 ms", _with_bars(figure(now["p50_ms"]), self._p50, bars)),
            ("p99 ms", _with_bars(figure(now["p99_ms"]), self._p99, bars)),
            ("delay p99", Text("-" if now["delay_p99_ms"] is None else f"{figure(now['delay_p99_ms'])} ms")),
            ("in flight", Text(_in_flight(now))),
            ("errors", _errors(now["errors"])),
        ]
        if now["power_w"]:
            rows.append(("power", Text(", ".join(f"{watts:.3g} W {name}" for name, watts in now["power_w"].items()))))
        rows += [("objective", _objective(name, status)) for name, status in now["objectives"].items()]
        return [*rows, ("so far", _verdict(now["constraints"]))]


def sparkline(values: Sequence[float], width: int) -> str:
    """The last values as bars from 0 to the largest of them."""
    shown = list(values)[-width:]
    most = max(shown, default=0.0)
    top = len(_BARS) - 1
    return "".join(_BARS[round(top * value / most) if most > 0 else 0] for value in shown)


def _with_bars(words: str, values: Sequence[float], bars: int) -> Text:
    return Text.assemble(f"{words:<{_WORDS}} ", (sparkline(values, bars) if bars > 0 else "", "cyan"))


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
