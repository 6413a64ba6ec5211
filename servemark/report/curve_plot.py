"""The throughput-latency curve as one HTML page that needs nothing else."""

from collections.abc import Mapping
from typing import Any

_COLOURS = {"mean": "#888888", "p50": "#1f77b4", "p99": "#d62728"}


def page(curve: Mapping[str, Any], title: str) -> str:
    """Latencies over the throughput that was reached, on a logarithmic axis, with the knee marked."""
    import plotly.graph_objects as go

    points = curve["points"]
    figure = go.Figure()
    for name, colour in _COLOURS.items():
        shown = [point for point in points if point[f"{name}_ms"] is not None]
        figure.add_scatter(
            x=[point["requests_per_s"] for point in shown],
            y=[point[f"{name}_ms"] for point in shown],
            text=[f"{point['rate']:g}/s requested" for point in shown],
            name=name,
            mode="lines+markers",
            line={"color": colour, "dash": "dot" if name == "mean" else "solid"},
        )
    knee = next((point for point in points if point["rate"] == curve["knee"]), None)
    if knee is not None:
        figure.add_vline(
            x=knee["requests_per_s"], line={"dash": "dash", "color": "#444"}, annotation_text=f"knee {knee['rate']:g}/s"
        )
    figure.update_layout(
        title={"text": f"{title}<br><sup>knee: {curve['definition']}<br>{curve['knee_reason']}</sup>"},
        xaxis={"title": {"text": "requests/s"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "latency, ms"}, "type": "log"},
        template="plotly_white",
        margin={"t": 120},
    )
    return str(figure.to_html(include_plotlyjs=True, full_html=True))
