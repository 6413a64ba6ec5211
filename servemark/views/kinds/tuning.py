"""A tuning: what was decided, every candidate, and the path of the search."""

from typing import Any

from servemark.quantities import figure, interval_words
from servemark.results.objectives import latency_objective, parse_objectives
from servemark.results.saved import Saved
from servemark.results.schema.header import reason_of
from servemark.results.schema.search import CandidateFigures, TuningDocument
from servemark.views.blocks import Article, Block, Check, Facts, Figure, Lines, Section, Table
from servemark.views.charts import Bar
from servemark.views.drawing import GOOD
from servemark.views.shape import shaped
from servemark.views.wording import served

SHOWN = 12
"""Rows of the table on a terminal."""
_WITHOUT_RATE = {"runs": "not finished", "other work": "disturbed", "unsteady": "INVALID"}
"""Word for a search that met no rate for another reason than the server's speed, by its limit."""


def article(saved: Saved) -> Article:
    """The answer, all candidates, and how they did."""
    document = saved.of(TuningDocument)
    rows = sorted(document["candidates"], key=_merit, reverse=True)
    winner, rates = document["winner"], document["rates_requests_per_s"]
    answer = f"{document['outcome']}: {document['reason']}"
    if winner:
        answer = f"{winner['text']}: {figure(rates['before'])} -> {figure(rates['after'])} requests/s"
        answer += f"; {ratio_words(document)}"
    slo = parse_objectives(document["request"]["objectives"]["slo"])
    slowest = latency_objective(slo)
    head = ["candidate", "screened/s", "max rate/s", f"{slowest.name if slowest else ''} ms", "in rounds/s"]
    asked = f"the highest Poisson rate with {document['request']['objectives']['slo']}"
    return shaped(
        document,
        about=f"{served(document)}: {asked}, batch {document['batch_size']}",
        answer=answer,
        sections=[
            Section("Candidates", [Table([*head, "verdict", ""], [_cells(document, row) for row in rows], most=SHOWN)]),
            Section("What was decided", [Lines(_notes(document))]),
            Section("Path of the search", lambda: _path(document)),
            Section("Configuration", lambda: _configurations(document)),
        ],
        outcome=document["outcome"],
    )


def comment(document: TuningDocument) -> str:
    """Write the first lines of a tuned config.pbtxt: the command, the machine, the objective and the gain."""
    environment, rates, space = document["environment"], document["rates_requests_per_s"], document["space"]
    winner, gpus = document["winner"], ", ".join(gpu["name"] for gpu in environment["gpus"])
    assert winner is not None
    lines = [
        f"Tuned by `{' '.join(document['command'])}`",
        f"on {document['created'][:10]}, {environment['cpu']}, {environment['cores']} cores; {gpus or 'no GPU'}.",
        f"Highest Poisson rate with {document['request']['objectives']['slo']}, batch {document['batch_size']}: "
        f"{figure(rates['before'])} -> {figure(rates['after'])} requests/s; {ratio_words(document)}.",
        f"Now {winner['text']}; before {document['present']['text']} (config.pbtxt.before-tune).",
    ]
    limit = winner["candidate"]["max_batch"]
    if limit < max(space["batches"], default=0):
        lines.append(f"Requests of more than {limit} samples are refused now: raise max_batch_size for them.")
    lines.append("An edited or tuned file is kept by later exports; `servemark export --force` writes it anew.")
    return "".join(f"# {line}\n" for line in lines)


def _merit(row: CandidateFigures) -> tuple[float, float, float]:
    """Sorts candidates: those of the rounds, then by highest rate, then by screening."""
    rate = row["max_rate"]["rate"] if row["max_rate"] else None
    return bool(row["rounds_requests_per_s"]), rate or 0.0, _mean(row["screens_requests_per_s"]) or 0.0


def _cells(document: TuningDocument, row: CandidateFigures) -> list[str]:
    """A candidate's row."""
    winner = document["winner"] and document["winner"]["text"]
    marks = {winner: "<- winner", document["present"]["text"]: "present"}
    return [
        *(row["text"], figure(_mean(row["screens_requests_per_s"]))),
        *(figure(row["max_rate"] and row["max_rate"]["rate"]), figure(row["latency_ms"])),
        ", ".join(map(figure, row["rounds_requests_per_s"])) or "-",
        *(_verdict(document, row), marks.get(row["text"], "")),
    ]


def _verdict(document: TuningDocument, row: CandidateFigures) -> str:
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


def _notes(document: TuningDocument) -> list[str]:
    """List the remarks below the table, the outcome among them."""
    lines = [f"{row['text']}: {row['failure']}" for row in document["candidates"] if row["failure"]]
    if document["not_tried"]:
        shown, more = document["not_tried"][:3], len(document["not_tried"]) - 3
        lines.append(f"no time for {', '.join(shown)}{f' and {more} more' if more > 0 else ''}: raise --budget")
    if any(row["generator_limited"] for row in document["candidates"]):
        lines.append("where the generator was the limit, the server may reach more than shown")
    lines.append(
        f"{document['spent_s']:.0f} s of {document['budget_s']:g} s; {document['outcome']}: {document['reason']}"
    )
    if document.get("lacked") == "time":
        more_s = 2 * max(document["budget_s"], document["spent_s"])  # the run under way at its end counts, too
        lines.append(f"to decide it: --budget {more_s:.0f}, with --resume to continue from here")
    elif document.get("lacked") == "machine":
        lines.append(
            "to decide it: stop the other work and tune anew (with --resume the disturbed runs would count); "
            "or --despite-busy"
        )
    where = document["written"]
    return [*lines, f"written: {where}" if where else f"nothing written: {reason_of(document, 'written')}"]


def ratio_words(document: TuningDocument) -> str:
    """The winner to the present configuration, in words."""
    ratio, rounds = document["ratio"], f"{document['rounds']} interleaved rounds"
    if ratio is None:
        return f"no ratio: {reason_of(document, 'ratio')}"
    interval = f"95 % interval {interval_words(ratio['ci95'], 3)}, " if ratio["ci95"] else ""
    return f"ratio {ratio['value']:.3f} ({interval}{rounds})"


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _path(document: TuningDocument) -> list[Block]:
    """Candidates in the order in which they were tried, by screening and by highest rate."""
    rows, winner = document["candidates"], document["winner"] and document["winner"]["text"]
    screened = [(row, _mean(row["screens_requests_per_s"])) for row in rows]
    searched = [(row, row["max_rate"] and row["max_rate"]["rate"]) for row in rows]
    parts: list[Block] = []
    for name, unit, found in (
        ("Screened, in the order of trial", "requests/s under full load", screened),
        ("Highest rate within the objective", "requests/s", searched),
    ):
        drawn = [
            Bar(
                *(f"{row['text']}{' (winner)' if row['text'] == winner else ''}", rate, None),
                colour=GOOD if row["text"] == winner else 0,
                said=_verdict(document, row),
            )
            for row, rate in found
            if rate is not None
        ]
        if drawn:
            parts.append(Figure.of_bars(name, unit, drawn, ["candidate", unit, "came to"]))
    return parts


def _configurations(document: TuningDocument) -> list[Block]:
    found = {"present": document["present"], **({"winner": document["winner"]} if document["winner"] else {})}
    rows = [(f"{name}: {each['text']}", each["config"]) for name, each in found.items()]
    return [Facts(rows, "config.pbtxt", folded=True)]


def records(saved: Saved) -> list[dict[str, Any]]:
    """One row."""
    document = saved.document
    winner, ratio, rates = document["winner"], document["ratio"] or {}, document["rates_requests_per_s"]
    row = {
        **{key: document[key] for key in ("workload", "engine", "device", "precision", "batch_size")},
        "slo": document["request"]["objectives"]["slo"] or None,
        "outcome": document["outcome"],
        "present": document["present"]["text"],
        "winner": winner and winner["text"],
        "max_rate_before_per_s": rates["before"],
        "max_rate_per_s": rates["after"],
        "max_rate_ratio": ratio.get("value"),
    }
    return [row]


def checks(saved: Saved) -> list[Check]:
    """The tuning is decided."""
    document = saved.of(TuningDocument)
    subject = f"{document['workload']}.{document['engine']}"
    return [Check("tuning", document["outcome"] in {"better", "same"}, note=document["reason"], subject=subject)]
