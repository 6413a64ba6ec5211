"""Saved results against each other, on the terminal: only differences beyond chance read as such."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from servemark.report.terminal.load import figure
from servemark.results.schema.comparison import SavedComparison, Subject
from servemark.results.schema.header import reason_of

SHOWN = 12
"""So many differing keys of the environments are listed."""
_STYLES = {"worse": "bold red", "better": "bold green"}


def render_regression(found: SavedComparison, console: Console) -> None:
    """Print how B differs from A."""
    for subject in found["subjects"]:
        runs = " and ".join(str(count) for count in subject["runs"])
        name = subject["a"] if subject["a"] == subject["b"] else f"A: {subject['a']}; B: {subject['b']}"
        console.print(f"{name}  |  {runs} runs", style="bold")
        console.print(_table(subject))
    for line in [*found["warnings"], *_differing(found)]:
        console.print(line, soft_wrap=True)
    worse = found["regressions"]
    text, style = (f"B is worse: {'; '.join(worse)}", "bold red") if worse else ("B is not worse than A", "bold green")
    console.print(text, style=style, soft_wrap=True)


def _table(subject: Subject) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("", "A", "B", "B / A", "95 % interval", "reading"):
        table.add_column(column, justify="left" if column in {"", "reading"} else "right")
    for difference in subject["differences"]:
        ratio, reading = difference["ratio"], difference["reading"]
        interval = ratio and ratio["ci95"]
        reason = f" ({why})" if (why := reason_of(difference, "figure")) else ""
        table.add_row(
            difference["figure"],
            figure(difference["a"]),
            figure(difference["b"]),
            f"{ratio['value']:.3f}" if ratio else "-",
            f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "-",
            Text(reading + reason, style=_STYLES.get(reading, "")),
        )
    return table


def _differing(found: SavedComparison) -> list[str]:
    differing = found["differing"]
    lines = [f"differs: {each['key']}: {each['a']} -> {each['b']}" for each in differing[:SHOWN]]
    return lines + ([f"and {len(differing) - SHOWN} more keys (--json)"] if len(differing) > SHOWN else [])
