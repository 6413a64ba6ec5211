"""Saved results against each other, on the terminal: only differences beyond chance read as such."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from servemark.results.schema.comparison import Difference, SavedComparison, Subject
from servemark.results.schema.header import reason_of
from servemark.views.markdown_table import pipes
from servemark.views.wording import figure

SHOWN = 12
"""Maximum number of differing keys of the environments that are listed."""
_STYLES = {"worse": "bold red", "better": "bold green", "undecided": "yellow"}
_OUTCOMES = {"worse": "bold red", "not worse": "bold green", "undecided": "bold yellow"}


def render_regression(found: SavedComparison, console: Console) -> None:
    """Print how B differs from A; the first lines are the answer."""
    for line in answer(found):
        console.print(line, style=_OUTCOMES[found["outcome"]], soft_wrap=True, highlight=False)
    for subject in found["subjects"]:
        console.print(title(subject, found), style="bold", highlight=False)
        console.print(_table(subject, found))
    for line in notes(found):
        console.print(line, soft_wrap=True, highlight=False)


def markdown(found: SavedComparison) -> str:
    """The same as Markdown, for a page or a pipeline's summary; the answer comes first."""
    parts = [f"**{line.strip()}**" for line in answer(found)]
    for subject in found["subjects"]:
        parts += [title(subject, found), pipes(head(found), [cells(each) for each in subject["differences"]])]
    return "\n\n".join([*parts, *(f"- {line}" for line in notes(found))]) + "\n"


def answer(found: SavedComparison) -> list[str]:
    """Say whether B is worse, not worse, or why that is not known."""
    if found["outcome"] == "worse":
        return [f"{found['b']} is worse: {'; '.join(found['regressions'])}"]
    if found["outcome"] == "undecided":
        first, *others = found["undecided"]
        return [f"undecided: {first}", *(f"           {other}" for other in others)]
    limit = f"{found['threshold'] * 100:.3g} %"
    return [f"{found['b']} is not worse than {found['a']} by {limit} ({', '.join(found['judged'])})"]


def title(subject: Subject, found: SavedComparison) -> str:
    """Name the compared subject and the number of runs that count on each side."""
    names = [found["a"], found["b"]]
    each = [subject["a"], subject["b"]]
    what = each[0] if each[0] == each[1] else "; ".join(f"{n}: {s}" for n, s in zip(names, each, strict=True))
    counts = subject["runs"]
    return f"{what}  |  {counts[0]} and {counts[1]} runs"


def head(found: SavedComparison) -> list[str]:
    """The columns of `cells`."""
    return ["", found["a"], found["b"], "ratio", f"{found['confidence'] * 100:.3g} % interval", "would see", "reading"]


def cells(difference: Difference) -> list[str]:
    """A figure's row: name, values, ratio and interval, the smallest loss it would have shown, and the reading."""
    ratio, reading = difference["ratio"], difference["reading"]
    interval = ratio and ratio["ci95"]
    # What a judged figure lacks is in the answer.
    said = reading == "undecided" or (difference["judged"] and reading == "not known")
    reason = None if said else reason_of(difference, "figure")
    return [
        difference["figure"],
        figure(difference["a"]),
        figure(difference["b"]),
        f"{ratio['value']:.3f}" if ratio else "-",
        f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "-",
        "-" if difference["minimum_detectable_change"] is None else f"{difference['minimum_detectable_change']:.1%}",
        reading + (f" ({reason})" if reason else ""),
    ]


def notes(found: SavedComparison) -> list[str]:
    """List the warnings, and the differences of the circumstances."""
    differing = found["differing"]
    lines = [f"differs: {each['key']}: {each['a']} -> {each['b']}" for each in differing[:SHOWN]]
    more = [f"and {len(differing) - SHOWN} more keys (--json)"] if len(differing) > SHOWN else []
    return [*found["warnings"], *lines, *more]


def _table(subject: Subject, found: SavedComparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in head(found):
        table.add_column(column, justify="left" if column in {"", "reading"} else "right")
    for difference in subject["differences"]:
        *rest, reading = cells(difference)
        table.add_row(*rest, Text(reading, style=_STYLES.get(difference["reading"], "")))
    return table
