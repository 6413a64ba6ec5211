"""When a trace was slow, and why: its worst seconds, in words."""

from datetime import datetime, timedelta

from servemark.documents.load import Trace
from servemark.documents.saved_load import load_of
from servemark.quantities import figure
from servemark.results.objectives import latency_objective, parse_objectives
from servemark.results.saved import Saved
from servemark.results.schema.details import WindowFigures
from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Result
from servemark.stats.percentiles import beyond_chance

SHOWN = 3
"""Maximum number of the worst seconds that are named."""
_PERCENTILES = ("p99", "p95", "p90", "p50")


def worst_seconds(saved: Saved) -> list[str]:
    """Like "p99 over 20 ms in 2 of 21 s; worst: second 14: p95 113.8 ms, 37 of 213 over"; a line each. No trace: none.

    Each second says how many arrivals it had, compared with the mean, and how its requests spent their time in the
    server, where its statistics are known.
    """
    result = saved.of(Result)
    load, trace, windows = load_of(result), result["scenario"]["trace"], result["windows"]
    if not isinstance(load, Trace) or trace is None or not any(map(_arrivals, windows)):
        return []
    first = datetime.fromisoformat(trace["first"]) if trace["first"] else None
    slo = latency_objective(parse_objectives(result["request"]["objectives"]["slo"]))
    length_s = windows[1]["start_s"] if len(windows) > 1 else 1.0
    mean = sum(map(_arrivals, windows)) / len(windows)
    shown, said = windows, "worst seconds:"
    if slo is not None:
        shown = [window for window in windows if beyond_chance(_over(window), _arrivals(window), slo.percentile)]
        unit = "s" if length_s == 1 else f"windows of {length_s:g} s"
        said = f"{slo.name} over {slo.limit:g} ms in {len(shown)} of {len(windows)} {unit}{'; worst:' if shown else ''}"
    ranked = sorted(shown, key=lambda window: (_over(window), window["max_ms"] or 0.0), reverse=True)[:SHOWN]
    return [
        said,
        *(
            f"  {_place(window['start_s'], length_s, first, load.speed)}: {_words(window)}; {_arrived(window, mean)}"
            f"{_in_server(window)}"
            for window in ranked
        ),
    ]


def _arrivals(window: WindowFigures) -> int:
    return window["count"] + window["errors"]


def _arrived(window: WindowFigures, mean: float) -> str:
    """Format the arrivals of a second: "939 arrivals, 6.4 times the mean"."""
    return f"{_arrivals(window):,} arrivals, {_arrivals(window) / mean:.1f} times the mean"


def _in_server(window: WindowFigures) -> str:
    """Format what Triton's statistics say of a window; "" where they are not known.

    Like "; in the server queue 12.30 + infer 3.10 ms, mean batch 3.20".
    """
    server = window.get("server")
    if server is None or server["queue_ms"] is None or server["compute_infer_ms"] is None:
        return ""
    spent = f"queue {figure(server['queue_ms'])} + infer {figure(server['compute_infer_ms'])} ms"
    return f"; in the server {spent}, mean batch {figure(server['batch_size_mean'])}"


def _over(window: WindowFigures) -> int:
    return window["over_slo"] or 0


def _place(start: float, length_s: float, first: datetime | None, speed: float) -> str:
    """Name the second of the trace, with its calendar time if the trace has one."""
    place = f"second {start:g}" if length_s == 1 else f"second {start:g} to {start + length_s:g}"
    return place if first is None else f"{place} ({first + timedelta(seconds=start * speed):%H:%M:%S})"


def _words(window: WindowFigures) -> str:
    """The highest percentile that the window's count supports, else the maximum; and what exceeded the objective."""
    known = [(name, value) for name in _PERCENTILES if (value := figure_of(window, f"{name}_ms")) is not None]
    name, value = known[0] if known else ("max", window["max_ms"])
    failed = f", {window['errors']:,} failed" if window["errors"] else ""
    over = "" if window["over_slo"] is None else f", {_over(window):,} of {_arrivals(window):,} over"
    return (f"{name} {figure(value)} ms" if value is not None else "none answered") + over + failed
