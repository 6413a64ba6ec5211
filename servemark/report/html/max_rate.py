"""The search for the highest rate as one HTML page that needs nothing else: every run, the objective, the answer."""

import html

from servemark.report.html import HOLLOW, limits, measured, ticks
from servemark.report.words import answer
from servemark.results.objectives import latency_objective, parse_objectives
from servemark.results.schema.run import RatePoint, Result
from servemark.results.verdict import verdict_words

_MET, _MISSED = "#2ca02c", "#d62728"
_HEIGHT = "640px"


def page(result: Result) -> str:
    """Each run's latency over its rate, with the objective's line, the rate that was found and its interval."""
    import plotly.graph_objects as go

    found = result["max_rate"]
    slowest = latency_objective(parse_objectives(result["config"]["slo"] or ""))
    name = slowest.name if slowest else "latency"
    figure = go.Figure()
    for words, met, colour in (("met", True, _MET), ("not met", False, _MISSED)):
        shown = [point for point in found["points"] if point["met"] is met and point["latency_ms"] is not None]
        figure.add_scatter(
            x=[point["rate"] for point in shown],
            y=[point["latency_ms"] for point in shown],
            text=[_words(number, point) for number, point in enumerate(found["points"], 1) if point in shown],
            hovertemplate=f"{name} %{{y:.4g}} ms at %{{x:.4g}}/s<br>%{{text}}<extra></extra>",
            name=words,
            mode="markers",
            marker={
                "size": 10,
                "color": colour,
                "symbol": ["circle" if point["valid"] else "circle-open" for point in shown],
            },
        )
    for words, limit_ms in limits(result):
        figure.add_hline(y=limit_ms, line={"dash": "dash", "color": _MISSED}, annotation_text=words)
    if found["rate"] is not None:
        figure.add_vline(
            x=found["rate"], line={"dash": "dash", "color": "#444"}, annotation_text=f"{found['rate']:,.4g}/s"
        )
    low, high = found["ci95"] or (None, None)
    if low is not None and high is not None:
        figure.add_vrect(x0=low, x1=high, fillcolor="#444", opacity=0.12, line_width=0)
    hollow = "" if all(point["valid"] for point in found["points"]) else f"; {HOLLOW}"
    known = [point["latency_ms"] for point in found["points"] if point["latency_ms"]]
    figure.update_layout(
        title={"text": f"{measured(result)}<br><sup>{html.escape(_answer(result))}{hollow}</sup>"},
        xaxis={"title": {"text": "requests/s on the schedule"}},
        yaxis={"title": {"text": f"{name} from the schedule, ms"}, "type": "log", "tickvals": ticks(known)},
        template="plotly_white",
        margin={"t": 150},
    )
    return str(figure.to_html(include_plotlyjs=True, full_html=True, default_height=_HEIGHT))


def _words(number: int, point: RatePoint) -> str:
    """One run."""
    return f"run {number}: {verdict_words(point['failed'], point['objective'])}"


def _answer(result: Result) -> str:
    """The answer, as the terminal has it."""
    return answer(result["max_rate"], result["config"]["slo"] or "")
