"""A quality run in words and tables. For the terminal, and for a page."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from servemark.results.schema.quality import QualityResult
from servemark.results.schema.score import QualityFigure, QualityScore

COLUMNS = ("figure", "value", "95 % interval")
LARGE = 1e6


def render_quality(result: QualityResult, console: Console) -> None:
    """Print a result of kind `quality`."""
    console.print(Text(title(result)))
    found = result["quality"]
    if found is not None:
        table = Table(box=None, header_style="", pad_edge=False)
        for column in COLUMNS:
            table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
        for figure in found["figures"]:
            table.add_row(*cells(figure))
        console.print(table)
    for line in lines(result):
        console.print(Text(line))
    console.print(Text(answer(result), style=style_of(found)))


def title(result: QualityResult) -> str:
    """Return the title: "ncf on onnxruntime, cpu, fp32, http  |  quality on ml-100k"."""
    place = ", ".join(str(result[key]) for key in ("engine", "device", "precision", "protocol"))
    source = f" on {result['quality']['data']['source']}" if result["quality"] else ""
    return f"{result['workload']} on {place}  |  quality{source}"


def answer(result: QualityResult) -> str:
    """The value against its target, in one sentence."""
    found = result["quality"]
    return "nothing was scored" if found is None else against_target(found)


def score_words(found: QualityScore) -> str:
    """The same of a load run: with the interval, and of how many examples."""
    low, high = (number(bound) for bound in found["figures"][0]["ci95"] or (None, None))
    data = found["data"]
    scored = f"{data['scored']:,} of {data['size']:,} examples"
    return "; ".join([against_target(found), f"95 % interval {low} to {high}, {scored}", *not_numbers(found)])


def not_numbers(found: QualityScore) -> list[str]:
    """Report the number of examples whose answers hold NaN or infinity, if there are any."""
    count = found.get("not_numbers", 0)
    return [f"{count:,} answered with NaN or infinity"] if count else []


def against_target(found: QualityScore) -> str:
    """The value and its target."""
    first = found["figures"][0]
    sign = ">=" if found["higher_is_better"] else "<="
    target = "no target is published" if found["target"] is None else f"target {sign} {found['target']:g}"
    reason = f" ({found['reason']})" if found["target"] is not None and "reason" in found else ""
    return f"{first['name']} {number(first['value'])}: {target}, {found['outcome']}{reason}"


def style_of(found: QualityScore | None) -> str:
    """Return the outcome's style on the terminal."""
    return {"met": "bold green", "missed": "bold red"}.get(found["outcome"] if found else "", "")


def cells(figure: QualityFigure) -> list[str]:
    """A figure's row, as COLUMNS names it."""
    interval, method = figure["ci95"], figure.get("ci95_method")
    by = f" ({method})" if method else ""  # results of earlier versions do not say
    return [
        figure["name"],
        number(figure["value"]),
        "-" if interval is None else f"{number(interval[0])} to {number(interval[1])}{by}",
    ]


def lines(result: QualityResult) -> list[str]:
    """Describe the examples, their number, and the failed ones."""
    found, errors = result["quality"], result["errors"]
    if found is None:
        return []
    data = found["data"]
    subset = "" if data["subset_seed"] is None else f", a random subset by seed {data['subset_seed']}"
    continued = f", {data['continued']:,} of them by an earlier run" if data["continued"] else ""
    said = [
        f"{data['scored']:,} of {data['size']:,} examples{subset}{continued}; sha256 {data['sha256'][:12]}",
        f"weights: {found['weights']}; target of: {found['protocol']}",
    ]
    if (by := result["resolved"].get("language_model")) is not None:
        weights = f"alpha {by['alpha']:g}, beta {by['beta']:g}, {by['beam_width']:,} beams"
        said.append(f"decoded with {by['file']}, sha256 {by['sha256'][:12]}: {weights}")
    if result["partial"]:
        missing = data["samples"] - data["scored"]
        said.append(f"cut short: {missing:,} examples are missing; the same command continues")
    causes = [f"{errors['count']:,} requests failed"] * bool(errors["count"]) + not_numbers(found)
    if causes:
        said.append(f"{', '.join(causes)}: {found['wrong']:,} examples count as wrong")
        said += [f"  {kind}: {count:,} {errors['messages'].get(kind, '')}" for kind, count in errors["by_kind"].items()]
    if found["left_out"]:
        said.append(f"{found['left_out']:,} failed examples are left out: {found['metric']} has no worst value")
    return said


def number(value: float | None) -> str:
    """Four decimals of a share, four digits of anything larger."""
    if value is None:
        return "-"
    if abs(value) >= LARGE:
        return f"{value:.3g}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"
