"""A comparison as one HTML page that needs nothing else: latencies and ratios of each engine with their intervals."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from servemark.report.terminal.comparison import device, heading, layout, notes, ratio_of
from servemark.report.words import RANDOM_WEIGHTS, agreement_words, is_reduced, only_agreement
from servemark.results.schema.comparison import ComparisonDocument, ComparisonRow
from servemark.results.schema.header import figure_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BLUE, _ORANGE, _GREEN, _GREY = "#1f77b4", "#ff7f0e", "#2ca02c", "#888888"
_RATIOS = (
    ("p50", "p50", _BLUE),
    ("throughput", "inferences_per_s", _ORANGE),
    ("highest rate", "max_rate", _GREEN),
)
_ROW_PX, _FRAME_PX, _SCATTER_PX = 56, 90, 420
_STEPS = (
    (1,),
    (1, 2, 5),
    (1, 1.5, 2, 3, 5, 7),
    (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9),
)
"""Ticks of a decade, from few to many."""
_MIN_TICKS, _MAX_TICKS = 4, 7
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 15px/1.5 sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222 }}
li {{ color: #444 }} code {{ background: #f3f3f3; padding: 2px 4px }}</style></head>
<body><h1 style="font-size: 20px">{title}</h1>
{plots}
<p>Whiskers: 95 % intervals over the rounds. Grey: not significant, chance may explain the difference.</p>
<ul>{notes}</ul>
<p><code>{command}</code><br>{environment}</p>
</body></html>
"""


@dataclass(frozen=True)
class _Panel:
    """One figure of all engines with its intervals."""

    title: str
    colour: str | Sequence[str]
    values: Sequence[float | None]
    intervals: Sequence[Sequence[float] | None]

    @property
    def starts(self) -> list[float | None]:
        """Where each whisker starts."""
        return [min(v, i[0]) if v is not None and i else v for v, i in zip(self.values, self.intervals, strict=True)]

    @property
    def ends(self) -> list[float | None]:
        """Where each whisker ends."""
        return [max(v, i[1]) if v is not None and i else v for v, i in zip(self.values, self.intervals, strict=True)]


def page(document: ComparisonDocument) -> str:
    """The HTML page of a comparison."""
    environment = document["environment"]
    plots = [_latencies(document["rows"])]
    others = [row for row in document["rows"] if row["ratio"]["inferences_per_s"] or row["ratio"]["p50"]]
    if others:
        plots.append(_ratios(others, document["baseline"]))
    if any(is_reduced(row) for row in document["rows"]):
        plots.append(_agreements(document["rows"]))
    parts = [
        figure.to_html(
            full_html=False, include_plotlyjs=number == 0, config={"displayModeBar": False, "responsive": True}
        )
        for number, figure in enumerate(plots)
    ]
    return _PAGE.format(
        title=html.escape(heading(document)),
        plots="\n".join(parts),
        notes="".join(f"<li>{html.escape(line)}</li>" for line in notes(document)),
        command=html.escape(" ".join(document["command"])),
        environment=html.escape(
            f"{document['created'][:10]}, {environment['cpu']}, {environment['cores']} cores, "
            f"{environment['memory_gb']} GB, {environment['os']}, commit {environment['git_commit']}"
        ),
    )


def _latencies(rows: Sequence[ComparisonRow]) -> "go.Figure":
    """p50 and p99 of each engine; a whisker is the 95 % interval over the rounds."""
    panels = [
        _Panel(
            title,
            colour,
            [figure_of(row["latency_ms"], key) for row in rows],
            [row["latency_ms"]["ci95"].get(key) for row in rows],
        )
        for title, key, colour in (("p50 in ms", "p50", _BLUE), ("p99 in ms", "p99", _ORANGE))
    ]
    figure = _draw(rows, panels, bars=True)
    figure.update_xaxes(rangemode="tozero")
    return figure


def _ratios(rows: Sequence[ComparisonRow], first: str) -> "go.Figure":
    """The others against the first engine; grey where chance may explain the difference."""
    panels = []
    for title, key, colour in _RATIOS:
        if key == "max_rate" and not any(ratio_of(row, key) for row in rows):
            continue
        ratios = [ratio_of(row, key) for row in rows]
        colours = [_GREY if ratio and ratio["significant"] is False else colour for ratio in ratios]
        values = [ratio and ratio["value"] for ratio in ratios]
        intervals = [ratio and ratio["ci95"] for ratio in ratios]
        panels.append(_Panel(f"{title}, ratio to {first}", colours, values, intervals))
    figure = _draw(rows, panels, bars=False)
    figure.add_vline(x=1, line_dash="dash", line_color=_GREY)
    for number, panel in enumerate(panels, start=1):
        ticks = _ticks([1.0, *panel.starts, *panel.ends])
        figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks], col=number, row=1)
    return figure


def _agreements(rows: Sequence[ComparisonRow]) -> "go.Figure":
    """Speed against agreement with fp32: the smallest cosine where outputs have one, else the equal first choices."""
    import plotly.graph_objects as go

    found = [(row, row["output_agreement"]) for row in rows if row["output_agreement"]["checked"]]
    cosine = all(agreement["cosine_min"] is not None for _, agreement in found)
    key = "cosine_min" if cosine else "top1_agreement"
    figure = go.Figure()
    figure.add_scatter(
        x=[row["inferences_per_s"]["mean"] for row, _ in found],
        y=[figure_of(agreement, key) for _, agreement in found],
        text=[f"{html.escape(row['label'])}<br>{agreement_words(agreement)}" for row, agreement in found],
        mode="markers+text",
        marker={"size": 12, "color": _GREEN},
        textposition="bottom center",
        hoverinfo="x+y",
        cliponaxis=False,
    )
    limits = sorted({limit for row, _ in found if (limit := _least_cosine(row)) is not None}) if cosine else []
    for limit in limits:
        figure.add_hline(y=limit, line_dash="dash", line_color=_GREY, annotation_text=f"tolerance {limit:g}")
    random = any(only_agreement(row, agreement) for row, agreement in found)
    lowest = min([*limits, *(figure_of(agreement, key) or 0.0 for _, agreement in found)])
    below = (1 - lowest or 0.01) / 4
    figure.update_layout(
        title={"text": f"speed against agreement{f' ({RANDOM_WEIGHTS})' if random else ''}", "font": {"size": 15}},
        xaxis={"title": {"text": "inferences/s"}, "rangemode": "tozero"},
        yaxis={
            "title": {"text": "smallest cosine" if cosine else "share with the same first choice"},
            "range": [lowest - below, 1 + below / 4],
        },
        template="plotly_white",
        height=_SCATTER_PX,
        margin={"l": 10, "r": 60, "t": 50, "b": 30},
    )
    return figure


def _least_cosine(row: ComparisonRow) -> float | None:
    """The smallest cosine that a reduced precision may have."""
    return (row["output_agreement"].get("tolerance") or {}).get("min_cosine")


def _draw(rows: Sequence[ComparisonRow], panels: Sequence[_Panel], *, bars: bool) -> "go.Figure":
    """The panels side by side, one line for each engine, the first on top as in the table."""
    from plotly.subplots import make_subplots

    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=[panel.title for panel in panels])
    names = [_name(row) for row in rows]
    for number, panel in enumerate(panels, start=1):
        shared = {"y": names, "row": 1, "col": number, "hoverinfo": "x", "showlegend": False}
        whiskers = _whiskers(panel)
        if bars:
            figure.add_bar(
                x=panel.values, orientation="h", marker_color=panel.colour, error_x=whiskers, width=0.5, **shared
            )
        else:
            marker = {"size": 12, "color": panel.colour}
            figure.add_scatter(x=panel.values, mode="markers", marker=marker, error_x=whiskers, **shared)
        # Beside the whisker's end, where nothing covers it.
        texts = ["" if value is None else f" {value:,.4g}" for value in panel.values]
        figure.add_scatter(
            x=panel.ends, mode="text", text=texts, textposition="middle right", cliponaxis=False, **shared
        )
    figure.update_layout(
        template="plotly_white", height=_FRAME_PX + _ROW_PX * len(rows), margin={"l": 10, "r": 60, "t": 50, "b": 30}
    )
    figure.update_yaxes(range=[len(rows) - 0.4, -0.6], automargin=True)
    return figure


def _ticks(values: Sequence[float | None]) -> list[float]:
    """Round numbers around the values on a logarithmic axis, some five of them."""
    known = [value for value in values if value]
    low, high = min(known) / 1.1, max(known) * 1.1
    for steps in _STEPS:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [round(step * 10.0**decade, 9) for decade in decades for step in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= _MIN_TICKS:
            return inside
    # Over so small a part of a decade the axis is nearly linear.
    least = (high - low) / _MAX_TICKS
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(unit * n for n in (1, 2, 5, 10) if unit * n >= least)
    return [round(n * step, 9) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _name(row: ComparisonRow) -> str:
    invalid = "" if row["verdict"]["valid"] else "<br><i>INVALID rounds</i>"
    parts = [device(row), *([] if layout(row) == "-" else [layout(row)]), str(row["precision"] or "?")]
    return f"{html.escape(row['label'])}<br><sub>{html.escape(', '.join(parts))}</sub>{invalid}"


def _whiskers(panel: _Panel) -> dict[str, Any]:
    both = list(zip(panel.values, panel.intervals, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": [max(i[1] - v, 0) if v is not None and i else 0 for v, i in both],
        "arrayminus": [max(v - i[0], 0) if v is not None and i else 0 for v, i in both],
    }
