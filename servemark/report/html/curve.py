"""The throughput-latency curve as one HTML page that needs nothing else."""

import math
from collections.abc import Sequence

from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Curve, CurvePoint

_COLOURS = {"mean": "#888888", "p50": "#1f77b4", "p99": "#d62728"}
_HEIGHT = "640px"
_OPEN_MARKER = "hollow: the run is INVALID"


def page(curve: Curve, title: str) -> str:
    """Latencies over the throughput that was reached, on a logarithmic axis, with the knee marked."""
    import plotly.graph_objects as go

    points = curve["points"]
    figure = go.Figure()
    for name, colour in _COLOURS.items():
        shown = [point for point in points if figure_of(point, f"{name}_ms") is not None]
        figure.add_scatter(
            x=[point["requests_per_s"] for point in shown],
            y=[figure_of(point, f"{name}_ms") for point in shown],
            text=[f"{point['rate']:g}/s requested, {'VALID' if point['valid'] else 'INVALID'}" for point in shown],
            hovertemplate=f"{name} %{{y:.4g}} ms at %{{x:.4g}}/s<br>%{{text}}<extra></extra>",
            name=name,
            mode="lines+markers",
            line={"color": colour, "dash": "dot" if name == "mean" else "solid"},
            marker={"size": 9, "symbol": ["circle" if point["valid"] else "circle-open" for point in shown]},
        )
    knee = next((point for point in points if point["rate"] == curve["knee"]), None)
    if knee is not None:
        figure.add_vline(
            x=knee["requests_per_s"], line={"dash": "dash", "color": "#444"}, annotation_text=f"knee {knee['rate']:g}/s"
        )
    hollow = "" if all(point["valid"] for point in points) else f"; {_OPEN_MARKER}"
    figure.update_layout(
        title={"text": f"{title}<br><sup>knee: {curve['definition']}<br>{curve['knee_reason']}{hollow}</sup>"},
        xaxis={"title": {"text": "answered requests/s"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "latency from the schedule, ms"}, "type": "log", "tickvals": _ticks(points)},
        template="plotly_white",
        margin={"t": 120},
    )
    return str(figure.to_html(include_plotlyjs=True, full_html=True, default_height=_HEIGHT))


def _ticks(points: Sequence[CurvePoint]) -> list[float]:
    """1, 2, 5, 10, ... around all latencies: plotly's own labels of a logarithmic axis leave out the power of ten."""
    found = [value for point in points for name in _COLOURS if (value := figure_of(point, f"{name}_ms"))]
    if not found:
        return []
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    return [step * 10.0**power for power in range(low, high + 1) for step in (1, 2, 5)]
