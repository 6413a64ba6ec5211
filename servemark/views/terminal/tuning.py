"""A tuning on the terminal, and as the comment at the head of the configuration it found."""

from rich.console import Console
from rich.table import Table

from servemark.machine.environment import Environment
from servemark.results.objectives import latency_objective, parse_objectives
from servemark.results.schema.header import reason_of
from servemark.results.schema.tuning import CandidateFigures, TuningDocument
from servemark.views.wording import figure

SHOWN = 12
"""Rows of the table; the others are in tuning.json."""
_WITHOUT_RATE = {"runs": "not finished", "other work": "disturbed", "unsteady": "INVALID"}
"""Word for a search that met no rate for another reason than the server's speed, by its limit."""


def render_tuning(document: TuningDocument, console: Console) -> None:
    """Print a tuning: the candidates, what was not tried, and what was decided."""
    console.print(title(document), style="bold")
    rows = sorted(document["candidates"], key=merit, reverse=True)
    console.print(_table(document, rows[:SHOWN]))
    for line in notes(document, len(rows) - SHOWN):
        console.print(line, soft_wrap=True)


def title(document: TuningDocument) -> str:
    """Name the tuned entry and the objective."""
    place = f"{document['workload']} on {document['engine']}, {document['device']}, {document['precision']}"
    slo = document["request"]["objectives"]["slo"]
    return f"{place}: the highest Poisson rate with {slo}, batch {document['batch_size']}"


def header(document: TuningDocument) -> str:
    """Write the first lines of a tuned config.pbtxt: the command, the machine, the objective and the gain."""
    environment, rates, space = document["environment"], document["rates_requests_per_s"], document["space"]
    winner = document["winner"]
    assert winner is not None
    lines = [
        f"Tuned by `{' '.join(document['command'])}`",
        f"on {document['created'][:10]}, {environment['cpu']}, {environment['cores']} cores; {_gpus(environment)}.",
        f"Highest Poisson rate with {document['request']['objectives']['slo']}, batch {document['batch_size']}: "
        f"{figure(rates['before'])} -> {figure(rates['after'])} requests/s; {ratio_words(document)}.",
        f"Now {winner['text']}; before {document['present']['text']} (config.pbtxt.before-tune).",
    ]
    limit = winner["candidate"]["max_batch"]
    if limit < max(space["batches"], default=0):
        lines.append(f"Requests of more than {limit} samples are refused now: raise max_batch_size for them.")
    lines.append("An edited or tuned file is kept by later exports; `servemark export --force` writes it anew.")
    return "".join(f"# {line}\n" for line in lines)


def merit(row: CandidateFigures) -> tuple[float, float, float]:
    """Sorts candidates: those of the rounds, then by highest rate, then by screening."""
    rate = row["max_rate"]["rate"] if row["max_rate"] else None
    return bool(row["rounds_requests_per_s"]), rate or 0.0, _mean(row["screens_requests_per_s"]) or 0.0


def head(document: TuningDocument) -> list[str]:
    """The columns of `cells`."""
    slowest = latency_objective(parse_objectives(document["request"]["objectives"]["slo"]))
    return [
        "candidate",
        "screened/s",
        "max rate/s",
        f"{slowest.name if slowest else ''} ms",
        "in rounds/s",
        "verdict",
        "",
    ]


def cells(document: TuningDocument, row: CandidateFigures) -> list[str]:
    """A candidate's row."""
    winner = document["winner"] and document["winner"]["text"]
    marks = {winner: "<- winner", document["present"]["text"]: "present"}
    return [
        row["text"],
        figure(_mean(row["screens_requests_per_s"])),
        figure(row["max_rate"] and row["max_rate"]["rate"]),
        figure(row["latency_ms"]),
        ", ".join(map(figure, row["rounds_requests_per_s"])) or "-",
        verdict_of(document, row),
        marks.get(row["text"], ""),
    ]


def _table(document: TuningDocument, rows: list[CandidateFigures]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in head(document):
        table.add_column(column, justify="left" if column in {"candidate", "verdict", ""} else "right")
    for row in rows:
        table.add_row(*cells(document, row))
    return table


def verdict_of(document: TuningDocument, row: CandidateFigures) -> str:
    """Describe a candidate's progress through the stages."""
    found = row["max_rate"]
    if row["failure"]:
        return "FAILED"
    if found is None:
        return "screened"
    if found["bottleneck"] in {"generator", "broken"}:
        return "limited by the generator" if found["bottleneck"] == "generator" else "INVALID"
    if found["rate"] is None:
        # Finalists are searched from the present configuration's rate on, where it has one.
        server = "below the present" if document["rates_requests_per_s"]["before"] else "MISSED"
        return _WITHOUT_RATE.get(found["bottleneck"], server)
    return "known to 5 %" if found["confirmed"] else "known roughly"


def notes(document: TuningDocument, hidden: int) -> list[str]:
    """List the remarks below the table, the outcome among them."""
    lines = [f"{hidden} more candidates are in tuning.json"] if hidden > 0 else []
    lines += [f"{row['text']}: {row['failure']}" for row in document["candidates"] if row["failure"]]
    if document["not_tried"]:
        shown, more = document["not_tried"][:3], len(document["not_tried"]) - 3
        lines.append(f"no time for {', '.join(shown)}{f' and {more} more' if more > 0 else ''}: raise --budget")
    if any(row["generator_limited"] for row in document["candidates"]):
        lines.append("where the generator was the limit, the server may reach more than shown")
    lines.append(
        f"{document['spent_s']:.0f} s of {document['budget_s']:g} s; {document['outcome']}: {document['reason']}"
    )
    if document.get("lacked") == "time":
        lines.append(f"to decide it: --budget {2 * document['budget_s']:g}, with --resume to continue from here")
    elif document.get("lacked") == "machine":
        lines.append("to decide it: stop the other work and tune anew; with --resume the disturbed runs would count")
    if document["winner"]:
        rates = document["rates_requests_per_s"]
        lines.append(f"{figure(rates['before'])} -> {figure(rates['after'])} requests/s; {ratio_words(document)}")
    where = document["written"]
    lines.append(f"written: {where}" if where else f"nothing written: {reason_of(document, 'written')}")
    return lines


def ratio_words(document: TuningDocument) -> str:
    """The winner to the present configuration, in words."""
    ratio, rounds = document["ratio"], document["rounds"]
    if ratio is None:
        return f"no ratio: {reason_of(document, 'ratio')}"
    if ratio["ci95"] is None:
        return f"ratio {ratio['value']:.3f} ({rounds} interleaved rounds)"
    low, high = ratio["ci95"]
    return f"ratio {ratio['value']:.3f} (95 % interval {low:.3f} to {high:.3f}, {rounds} interleaved rounds)"


def _gpus(environment: Environment) -> str:
    return ", ".join(gpu["name"] for gpu in environment["gpus"]) or "no GPU"


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
