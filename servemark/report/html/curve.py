"""The throughput-latency curve as one HTML page that needs nothing else."""

from servemark.report.html import HOLLOW, limits, measured, ticks
from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Curve, CurvePoint, Result
from servemark.results.verdict import verdict_words

_COLOURS = {"mean": "#888888", "p50": "#1f77b4", "p99": "#d62728"}
_HEIGHT = "640px"


def page(curve: Curve, result: Result) -> str:
    """Latencies over the throughput that was reached, on a logarithmic axis, with the knee and the objectives marked.

    The title is that of one of the runs.
    """
    import plotly.graph_objects as go

    points = curve["points"]
    figure = go.Figure()
    for name, colour in _COLOURS.items():
        shown = [point for point in points if figure_of(point, f"{name}_ms") is not None]
        figure.add_scatter(
            x=[point["requests_per_s"] for point in shown],
            y=[figure_of(point, f"{name}_ms") for point in shown],
            text=[f"{point['rate']:g}/s requested, {_words(point)}" for point in shown],
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
    for words, limit_ms in limits(result):
        figure.add_hline(y=limit_ms, line={"dash": "dash", "color": "#d62728"}, annotation_text=words)
    hollow = "" if all(point["valid"] for point in points) else f"; {HOLLOW}"
    known = [value for point in points for name in _COLOURS if (value := figure_of(point, f"{name}_ms"))]
    figure.update_layout(
        title={
            "text": f"{measured(result)}<br><sup>knee: {curve['definition']}<br>{curve['knee_reason']}{hollow}</sup>"
        },
        xaxis={"title": {"text": "answered requests/s"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "latency from the schedule, ms"}, "type": "log", "tickvals": ticks(known)},
        template="plotly_white",
        margin={"t": 150},
    )
    return str(figure.to_html(include_plotlyjs=True, full_html=True, default_height=_HEIGHT))


def _words(point: CurvePoint) -> str:
    """Both answers of a rate."""
    return verdict_words([] if point["valid"] else ["see its result"], point["objective"])
