"""Engines side by side: on the terminal and in Markdown, from a comparison's document."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from servemark.report.scenario import title
from servemark.report.terminal import figure

Document = Mapping[str, Any]
_OUTPUTS = "max error, top-1"


def render_comparison(document: Document, console: Console) -> None:
    """Print a comparison: the figures, each engine against the first, and what is missing and why."""
    console.print(heading(document), style="bold", markup=False)
    for head, cells in (_figures(document), _against(document)):
        if cells:
            console.print(_table(head, cells))
    for line in notes(document):
        console.print(line, markup=False, soft_wrap=True)


def markdown(document: Document) -> str:
    """The same as a page for docs/results/, with the environment it holds for."""
    environment = document["environment"]
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    parts = [
        f"## {heading(document)}",
        f"{document['created'][:10]}; {environment['cpu']}, {environment['cores']} cores, "
        f"{environment['memory_gb']} GB; {environment['os']}, Python {environment['python']}; commit "
        f"{environment['git_commit']}; {packages}.",
        f"`{' '.join(document['command'])}`",
        *(_pipes(head, cells) for head, cells in (_figures(document), _against(document)) if cells),
        "\n".join(f"- {line}" for line in notes(document)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def heading(document: Document) -> str:
    """What was compared under which load."""
    scenario = document["scenario"]
    load = f"{title(scenario)}, " if scenario else ""
    return (
        f"{document['workload']} side by side: {load}batch {document['batch_size']}, "
        f"{document['rounds_done']} interleaved rounds of {document['duration_s']:g} s"
    )


def notes(document: Document) -> list[str]:
    """One line for each thing a reader must know: gaps with their reasons, invalid rounds, mixed precisions."""
    rows = document["rows"]
    lines = [f"partial: {document['partial_reason']}"] if document["partial"] else []
    lines += [f"{left['label']} was left out: {left['reason']}" for left in document["left_out"]]
    lines += [
        f"{label} was tuned first: {t['taken']} ({t['outcome']})" for label, t in document.get("tuned", {}).items()
    ]
    precisions = sorted({str(row["precision"]) for row in rows})
    if len(precisions) > 1:
        lines.append(f"precisions differ ({', '.join(precisions)}): the outputs' errors say what speed cost")
    for row in rows:
        if not row["verdict"]["valid"]:
            counted = ", ".join(f"{name} in {count}" for name, count in row["verdict"]["failed"].items())
            said = f"{row['label']}: not every round is VALID ({counted} of {row['rounds']})"
            remedy = row["verdict"].get("remedy")
            lines.append(f"{said}: {remedy}" if remedy else said)
    if any(row["ratio"].get("of_invalid_runs") for row in rows):
        lines.append("* a ratio that rests on INVALID rounds")
    return [*lines, *_gaps(rows)]


def _gaps(rows: Sequence[Document]) -> Iterator[str]:
    """The reason of each dash, once for all engines that share it."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        found = {
            "p50": row["latency_ms"].get("p50_reason"),
            "p99": row["latency_ms"].get("p99_reason"),
            "max rate": row.get("max_rate_reason"),
            "J/inference": row["energy"].get("reason"),
            "outputs": row["output_agreement"].get("reason"),
            "variation": row["variation"].get("reason"),
            "intervals": row["ratio"].get("ci95_reason"),
        }
        for name, reason in found.items():
            if reason:
                reasons.setdefault(f"{name}: {reason}", []).append(row["label"])
    for reason, labels in reasons.items():
        yield reason if len(labels) == len(rows) else f"{reason} ({', '.join(labels)})"


def _figures(document: Document) -> tuple[list[str], list[list[str]]]:
    head = ["engine", "device", "precision", "p50 ms", "p99 ms", "inferences/s"]
    head += ["max rate", "J/inference", _OUTPUTS, "variation", "verdict"]
    cells = []
    for row in document["rows"]:
        latency, energy = row["latency_ms"], row["energy"]
        variation = row["variation"]["p50"]
        joules = energy["joules_per_inference"]
        cells.append(
            [
                row["label"],
                str(row["device"] or "?"),
                str(row["precision"] or "?"),
                figure(latency["p50"]),
                figure(latency["p99"]),
                figure(row["inferences_per_s"]["mean"]),
                figure(row["max_rate"] and row["max_rate"]["rate"]),
                "-" if joules is None else f"{joules:.3g} ({energy['boundary']})",
                _outputs(row["output_agreement"]),
                "-" if variation is None else f"{variation:.1%}",
                "VALID"
                if row["verdict"]["valid"]
                else f"INVALID {row['rounds'] - row['verdict']['valid_rounds']} of {row['rounds']}",
            ]
        )
    return head, cells


def _against(document: Document) -> tuple[list[str], list[list[str]]]:
    """Each engine against the first: below 1 is faster for latencies, above 1 for throughput."""
    head = [f"against {document['baseline']}", "p50 ratio", "p99 ratio", "throughput ratio"]
    cells = []
    for row in document["rows"]:
        ratio = row["ratio"]
        if row["label"] == document["baseline"]:
            continue
        mark = "*" if ratio["of_invalid_runs"] else ""
        cells.append([row["label"], *(_ratio(ratio[name], mark) for name in ("p50", "p99", "inferences_per_s"))])
    return head, cells


def _ratio(ratio: Document | None, mark: str) -> str:
    if ratio is None:
        return "-"
    if ratio["ci95"] is None:
        return f"{ratio['value']:.3f}{mark}"
    low, high = ratio["ci95"]
    note = "" if ratio["significant"] else ", not significant"
    return f"{ratio['value']:.3f}{mark} ({low:.3f} to {high:.3f}{note})"


def _outputs(agreement: Document) -> str:
    if not agreement["checked"]:
        return "-"
    error, top1 = agreement["max_abs_error"], agreement["top1_agreement"]
    parts = [] if error is None else [f"{error:.1g}"]
    return ", ".join([*parts, *([] if top1 is None else [f"{top1:.4g}"])])


def _table(head: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in head:
        left = column in {"engine", "device", "precision", "verdict"} or column.startswith("against")
        table.add_column(column, justify="left" if left else "right", no_wrap=column in {"engine", "device"})
    for row in cells:
        table.add_row(*row)
    return table


def _pipes(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)])
