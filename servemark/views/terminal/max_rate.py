"""The search for the highest rate on the terminal: the answer, every rate tried, and the run that stands for it."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from servemark.results.objectives import latency_objective, parse_objectives
from servemark.results.schema.run import Result
from servemark.results.verdict import verdict_words
from servemark.views.terminal.load import render
from servemark.views.wording import answer


def render_max_rate(result: Result, console: Console) -> None:
    """Print a search's result: the answer first."""
    found, slo = result["max_rate"], result["request"]["objectives"]["slo"]
    console.print(Text(answer(found, slo), style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("requests/s", justify="right")
    slowest = latency_objective(parse_objectives(slo))
    table.add_column(f"{slowest.name} ms" if slowest else "ms", justify="right")
    table.add_column("verdict")
    for point in sorted(found["points"], key=lambda p: p["rate"]):
        latency = "-" if point["latency_ms"] is None else f"{point['latency_ms']:,.2f}"
        table.add_row(f"{point['rate']:,.5g}", latency, verdict_words(point["failed"], point["objective"]))
    console.print(table)
    console.print("The run that stands for it:" if found["rate"] is not None else "The run at the lowest rate:")
    render(result, console)
