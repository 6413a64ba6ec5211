"""Engines side by side: on the terminal and in Markdown, from a comparison's document."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from rich.console import Console
from rich.table import Table

from servemark.results.labels import title
from servemark.results.schema.comparison import ComparisonDocument, ComparisonRow
from servemark.results.schema.header import reason_of
from servemark.stats.ratios import RatioFigures
from servemark.views.markdown_table import circumstances, pipes
from servemark.views.quality import number
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, figure, is_reduced, only_agreement

Cells = tuple[list[str], list[list[str]]]
_ALWAYS = {"p50 ms", "p99 ms", "inferences/s", "p50 ratio", "throughput ratio"}
RATIOS = {"p50": "p50", "p99": "p99", "throughput": "inferences_per_s", "max rate": "max_rate"}
"""Of an engine to the first, as they are called and as comparison.json calls them."""
_NUMBERS = {"p50 ms", "p99 ms", "inferences/s", "max rate", "J/inference", "variation"}


def render_comparison(document: ComparisonDocument, console: Console) -> None:
    """Print a comparison: the figures, each engine against the first, and what is missing and why."""
    console.print(heading(document), style="bold")
    for head, cells in tables(document):
        if cells:
            console.print(_table(head, cells))
            console.print()
    for line in notes(document):
        console.print(line, soft_wrap=True)


def markdown(document: ComparisonDocument) -> str:
    """The same as a page for docs/results/, with the environment it holds for."""
    parts = [
        f"## {heading(document)}",
        circumstances(document["created"], document["environment"]),
        f"`{' '.join(document['command'])}`",
        *(pipes(head, cells) for head, cells in tables(document) if cells),
        "\n".join(f"- {line}" for line in notes(document)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def heading(document: ComparisonDocument) -> str:
    """Name the compared workload and its load."""
    scenario = document["scenario"]
    load = f"{title(scenario)}, " if scenario else ""
    return (
        f"{document['workload']} side by side: {load}batch {document['batch_size']}, "
        f"{document['rounds_done']} interleaved rounds of {document['duration_s']:g} s"
    )


def notes(document: ComparisonDocument) -> list[str]:
    """One line for each thing a reader must know: gaps with their reasons, invalid rounds, mixed precisions."""
    rows = document["rows"]
    lines = [f"partial: {reason_of(document, 'partial')}"] if document["partial"] else []
    lines += [f"{left['label']} was left out: {left['reason']}" for left in document["left_out"]]
    for label, tuned in document.get("tuned", {}).items():
        lines.append(f"{label} was tuned first, {tuned['outcome']}: {tuned['reason']}; it ran with {tuned['taken']}")
    precisions = sorted({str(row["precision"]) for row in rows})
    if len(precisions) > 1:
        what = "quality" if any(row.get("quality") for row in rows) else "how the outputs agree"
        lines.append(f"precisions differ ({', '.join(precisions)}): compare {what}, too")
    if any(only_agreement(row, row["output_agreement"]) for row in rows):
        lines.append(RANDOM_WEIGHTS)
    for row in rows:
        if not row["verdict"]["valid"]:
            counted = ", ".join(f"{name} in {count}" for name, count in row["verdict"]["failed"].items())
            said = f"{row['label']}: not every round is VALID ({counted} of {row['rounds']})"
            remedy = row["verdict"].get("remedy")
            lines.append(f"{said}: {remedy}" if remedy else said)
    if any(row["ratio"].get("of_invalid_runs") for row in rows):
        lines.append("* this ratio includes INVALID rounds")
    return [*lines, *_scored(rows), *_noise(rows), *_gaps(rows)]


def _scored(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """On how many examples quality stands, whether it is enough, and why a share of fp32's is missing."""
    found = {row["label"]: quality for row in rows if (quality := row.get("quality"))}
    if not found:
        return
    counts = {label: quality["examples"] for label, quality in found.items()}
    if len({quality["data_sha256"] for quality in found.values()}) == 1:
        yield f"quality: of {next(iter(counts.values())):,} examples, the same of each"
    else:
        counted = ", ".join(f"{label} {count:,}" for label, count in counts.items())
        yield f"quality: not of the same examples ({counted}), so shares of fp32's are missing: a longer --duration"
    outcomes = {label: quality.get("outcome", "not judged") for label, quality in found.items()}
    if "not judged" not in outcomes.values():
        missed = [label for label, outcome in outcomes.items() if outcome == "missed"]
        target = next(iter(found.values())).get("target")
        yield f"quality: the target {target} is " + (f"missed by {', '.join(missed)}" if missed else "met by each")
    if any(quality["of_fp32"] is not None for quality in found.values()):
        yield "of fp32's: MLPerf's closed division asks for 99 % or 99.9 %"
    elif all(is_reduced(row) for row in rows):
        yield "of fp32's: none of these computes in fp32"
    if random := [label for label, quality in found.items() if quality["weights"] == "random"]:
        yield f"quality: random weights, so that it says nothing of the model ({', '.join(random)})"


def _noise(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """Report the noise of the machine in the rounds."""
    counted = [(row["label"], row["verdict"]["unsteady_rounds"], row["rounds"]) for row in rows]
    unsteady = [f"{label} {count} of {of}" for label, count, of in counted if count]
    if unsteady:
        yield f"rounds whose windows scattered count; the intervals include their noise: {', '.join(unsteady)}"
    beside = [(row["label"], row["verdict"].get("disturbed_rounds", 0), row) for row in rows]
    suffered = [
        f"{label} {count} of {row['rounds']} (up to {row['verdict'].get('other_cpu_share', 0.0):.0%} of the cores)"
        for label, count, row in beside
        if count
    ]
    if suffered:
        yield (
            f"other work ran beside these rounds: {', '.join(suffered)}. Engines whose threads spin suffer more than "
            "others, which turns do not cancel: repeat on a quiet machine"
        )
    drifting = [f"{row['label']} by {row['drift']:+.0%}" for row in rows if row["drift"] is not None]
    if drifting:
        who = "the machine" if len(drifting) == len(rows) else "the engine or the machine"
        yield (
            f"inferences/s rose or fell from round to round ({', '.join(drifting)}): {who} was still changing. "
            "The ratios cancel what all engines share. An engine that warms up slowly needs a longer --warmup"
        )


def _gaps(rows: Sequence[ComparisonRow]) -> Iterator[str]:
    """The reason of each dash, once for all engines that share it."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        found = {
            "p50": row["latency_ms"].get("p50_reason"),
            "p99": row["latency_ms"].get("p99_reason"),
            "max rate": reason_of(row, "max_rate"),
            "max rate ratio": None if reason_of(row, "max_rate") else row["ratio"].get("max_rate_reason"),
            "J/inference": row["energy"].get("reason"),
            "outputs": row["output_agreement"].get("reason"),
            "variation": row["variation"].get("reason"),
            "intervals": row["ratio"].get("ci95_reason"),
            "configuration": row.get("configuration_reason"),
        }
        for name, reason in found.items():
            if reason:
                reasons.setdefault(f"{name}: {reason}", []).append(row["label"])
    for reason, labels in reasons.items():
        yield reason if len(labels) == len(rows) else f"{reason} ({', '.join(labels)})"


def tables(document: ComparisonDocument) -> Iterator[Cells]:
    """Yield the tables: circumstances, figures, and ratios to the first engine; columns of dashes only are left out."""
    subjects: dict[str, Callable[[ComparisonRow], str]] = {
        "device": device,
        "instances x threads": layout,
        "precision": lambda row: str(row["precision"] or "?"),
        "outputs against fp32": _outputs,
        "tuned": lambda row: _tuned(document, row),
    }
    figures: dict[str, Callable[[ComparisonRow], str]] = {
        "p50 ms": lambda row: figure(row["latency_ms"]["p50"]),
        "p99 ms": lambda row: figure(row["latency_ms"]["p99"]),
        "inferences/s": lambda row: figure(row["inferences_per_s"]["mean"]),
        "max rate": lambda row: figure(row["max_rate"] and row["max_rate"]["rate"]),
        "J/inference": _joules,
        "quality": _quality,
        "of fp32's": _kept,
        "variation": lambda row: "-" if row["variation"]["p50"] is None else f"{row['variation']['p50']:.1%}",
        "verdict": _verdict,
    }
    rows = document["rows"]
    yield _columns("engine", rows, subjects)
    yield _columns("engine", rows, figures)
    others = [row for row in rows if row["label"] != document["baseline"]]
    ratios = {f"{title} ratio": functools.partial(_ratio, name) for title, name in RATIOS.items()}
    yield _columns(f"against {document['baseline']}", others, ratios)


def _columns(first: str, rows: Sequence[ComparisonRow], columns: Mapping[str, Callable[[ComparisonRow], str]]) -> Cells:
    """A table with a row for each engine."""
    cells = {head: [cell(row) for row in rows] for head, cell in columns.items()}
    shown = {first: [str(row["label"]) for row in rows]}
    shown |= {head: column for head, column in cells.items() if head in _ALWAYS or set(column) - {"-"}}
    return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]


def device(row: ComparisonRow) -> str:
    """Name an engine's device, and its provider if that says more: "cpu, eager", but not "cpu, CPU"."""
    place = str(row["device"] or "?")
    kind = "cpu" if place.startswith("cpu") else "cuda|gpu"
    more = re.sub(rf"^({kind})(:\d+)?\s*", "", str(row["provider"] or ""), flags=re.IGNORECASE)
    more = more.replace("ExecutionProvider", "").strip()
    known = {"", str(row["precision"]), str(row["precision"]).replace("fp", "f")}
    return place if more in known else f"{place}, {more}"


def layout(row: ComparisonRow) -> str:
    """The instances of an engine and the threads of each, as its configuration says; 0 leaves them to the engine."""
    found = row.get("configuration")
    return f"{found['instances']} x {found['threads'] or 'all'}" if found else "-"


def _tuned(document: ComparisonDocument, row: ComparisonRow) -> str:
    """Format the outcome of an engine's tuning: "better, 1.32", "same", "undecided"."""
    found = document.get("tuned", {}).get(row["label"])
    if found is None:
        return "-"
    better = found["outcome"] == "better" and found["ratio"]
    return f"better, {better['value']:.2f}" if better else str(found["outcome"])


def _joules(row: ComparisonRow) -> str:
    joules = row["energy"]["joules_per_inference"]
    return "-" if joules is None else f"{joules:.3g} ({row['energy']['boundary']})"


def _quality(row: ComparisonRow) -> str:
    """Format the score of the answers: "HR@10 0.6543 (0.6243 to 0.6840)"."""
    found = row.get("quality")
    if found is None or found["value"] is None:
        return "-"
    interval = "" if found["ci95"] is None else f" ({number(found['ci95'][0])} to {number(found['ci95'][1])})"
    return f"{found['metric']} {number(found['value'])}{interval}"


def _kept(row: ComparisonRow) -> str:
    """Format the share of fp32's quality, and the MLPerf bound that it keeps: "99.73 %: keeps 99 %"."""
    found = row.get("quality")
    if found is None or found["of_fp32"] is None:
        return "-"
    bound = next((f"keeps {bound:.3g} %" for bound in (99.9, 99) if found["of_fp32"] >= bound / 100), "below 99 %")
    return f"{found['of_fp32']:.2%}: {bound}"


def _outputs(row: ComparisonRow) -> str:
    agreement = row["output_agreement"]
    return agreement_words(agreement) if agreement["checked"] else "-"


def _verdict(row: ComparisonRow) -> str:
    verdict, rounds = row["verdict"], row["rounds"]
    words = "VALID" if verdict["valid"] else f"INVALID {rounds - verdict['valid_rounds']} of {rounds}"
    missed = verdict["objective_missed"]
    if missed is None:
        return words
    return f"{words}, {f'MISSED {missed} of {rounds}' if missed else 'MET'}"


def ratio_of(row: ComparisonRow, name: str) -> RatioFigures | None:
    """One of an engine's ratios, by its key in comparison.json."""
    return cast(RatioFigures | None, dict(row["ratio"])[name])


def _ratio(name: str, row: ComparisonRow) -> str:
    """An engine against the first: below 1 is faster for latencies, above 1 for throughput and rate."""
    ratio = ratio_of(row, name)
    if ratio is None:
        return "-"
    # The runs that met a rate are VALID, whatever the rounds were.
    mark = "*" if row["ratio"]["of_invalid_runs"] and name != "max_rate" else ""
    if ratio["ci95"] is None:
        return f"{ratio['value']:.3f}{mark}"
    low, high = ratio["ci95"]
    note = "" if ratio["significant"] else ", not significant"
    return f"{ratio['value']:.3f}{mark} ({low:.3f} to {high:.3f}{note})"


def _table(head: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in head:
        table.add_column(column, justify="right" if column in _NUMBERS else "left")
    for row in cells:
        table.add_row(*row)
    return table
