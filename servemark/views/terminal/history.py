"""A metric over all results on the terminal: a row for each series, the changes below, the answer last."""

from rich.console import Console
from rich.table import Table

from servemark.results.labels import change
from servemark.results.schema.history import History, HistorySeries
from servemark.views.wording import figure

HEAD = ("series", "used", "of", "latest", "chance", "changes", "outcome")
_STYLES = {"worse": "bold red", "not worse": "bold green", "undecided": "bold yellow"}


def render_history(found: History, console: Console) -> None:
    """Print every series and its changes; the last line is the answer."""
    if found["series"]:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in HEAD:
            table.add_column(column, justify="left" if column in {"series", "outcome"} else "right")
        for series in found["series"]:
            table.add_row(*cells(series))
        console.print(table)
    for series in found["series"]:
        for line in changes(series):
            console.print(f"{name(series)}: {line}", soft_wrap=True)
    for line in found["unreadable"]:
        console.print(f"not read: {line}", soft_wrap=True)
    console.print(answer(found), style=_STYLES[found["outcome"]], soft_wrap=True)


def answer(found: History) -> str:
    """Say whether the metric is worse at the end of any series."""
    series = found["series"]
    if not series:
        others = "kernels have kernel_time, searches max_rate"
        return f"undecided: no result below {found['folder']} has {found['metric']}; {others}"
    counted = f"{found['metric']} in {len(series)} series"
    said = [each for each in series if each["outcome"] == found["outcome"]]
    if found["outcome"] == "not worse":
        return f"not worse: {counted}, none changed for the worse at its end by more than {found['threshold']:.3g}"
    return f"{found['outcome']}: {counted}; {len(said)} {found['outcome']}, first {name(said[0])}: {said[0]['reason']}"


def name(series: HistorySeries) -> str:
    """Name the subject and the machine of a series."""
    return f"{series['subject']} on {series['machine']}"


def cells(series: HistorySeries) -> list[str]:
    """A series' row."""
    used = [each for each in series["results"] if each["used"]]
    return [
        name(series),
        str(len(used)),
        str(len(series["results"])),
        figure(used[-1]["value"] if used else None),
        "-" if series["chance"] is None else f"{series['chance']:.2g}",
        str(len(series["changes"])),
        series["outcome"],
    ]


def changes(series: HistorySeries) -> list[str]:
    """Each change of a series, in words."""
    return [f"{change(each)} ({each['before']} -> {each['after']})" for each in series["changes"]]
