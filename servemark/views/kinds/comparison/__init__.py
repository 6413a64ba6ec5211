"""Engines side by side: who is fastest beyond chance, the figures, the ratios, and what a reader must know."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from servemark.documents.saved_load import read_single_load, title
from servemark.quantities import figure, interval_words
from servemark.results.saved import Saved
from servemark.results.schema.comparison import ComparisonDocument, ComparisonRow, ComparisonTurn
from servemark.results.schema.header import reason_of
from servemark.views.blocks import Article, Block, Check, Facts, Lines, Section, Table
from servemark.views.kinds import difference
from servemark.views.kinds.comparison import engines
from servemark.views.kinds.comparison.engines import RATIOS, RatioName
from servemark.views.shape import shaped
from servemark.views.verdict import validity
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, is_reduced, low_and_high, only_agreement, score

Column = Callable[[ComparisonRow], str]
FootprintName = Literal["startup_s", "cpu_ms_per_inference", "memory_bytes"]
_ALWAYS = ("p50 ms", "p99 ms", "inferences/s", "p50 ratio", "throughput ratio")
_APART = 0.2
"""Coefficient of variation of the throughput over the rounds, above which no single figure describes an engine."""
_UNASKED = ("max rate", "J/inference", "variation", "configuration")
"""Columns that are left out without a word where nothing is known of them; the page says why, folded."""


def article(saved: Saved) -> Article:
    """The answer, the tables, the figures, and the caveats after them."""
    document = saved.of(ComparisonDocument)
    rows, gate = document["rows"], document.get("gate")
    said = [*(difference.answer(gate) if gate else []), *engines.answer(document)]
    first = document["baseline"]
    return shaped(
        document,
        about=heading(document),
        answer=said[0],
        explained=[*said[1:], *_invalid(rows)],
        sections=[
            Section("Servers" if document.get("servers") else "Engines", list(_tables(document))),
            *(difference.subjects(gate) if gate else []),
            Section("Ratios", lambda: engines.ratios(rows, first)),
            Section("Latency and throughput", lambda: engines.figures(rows)),
            Section("Queue", lambda: engines.in_flight(rows)),
            Section("Throughput against p99", lambda: engines.pareto(rows)),
            Section("Speed against agreement", lambda: engines.agreements(rows) if any(map(is_reduced, rows)) else []),
            Section("What to know", [Lines(notes(document))]),
            Section("Rounds", lambda: _rounds(document)),
        ],
        badges=[validity(all(row["verdict"]["valid"] for row in rows))],
        before_environment=[Facts([*_gaps(rows, wanted=False)], "Not measured", folded=True)],
    )


def heading(document: ComparisonDocument) -> str:
    """Name the compared workload and its load."""
    load, scenario = document["load"], document["scenario"]
    scheduled = document.get("scheduled_rate")
    counted = "" if scheduled is None else f" (scheduled {figure(scheduled)}/s)"
    said = f"{title(read_single_load(load), scenario)}{counted}, " if load and scenario else ""
    return (
        f"{document['workload']} side by side: {said}batch {document['batch_size']}, "
        f"{document['rounds_done']} interleaved rounds of {document['duration_s']:g} s"
    )


def _invalid(rows: Sequence[ComparisonRow]) -> list[str]:
    """Explain INVALID to the reader."""
    made_, bad = sum(row["rounds"] for row in rows), sum(row["rounds"] - row["verdict"]["valid_rounds"] for row in rows)
    if not bad:
        return []
    runs = f"{bad} of {made_} runs {'is' if bad == 1 else 'are'} INVALID"
    return [f"INVALID: the figures cannot be quoted, because {runs}; ratios marked * use them."]


def notes(document: ComparisonDocument) -> list[str]:
    """One line for each thing a reader must know: gaps with their reasons, invalid rounds, mixed precisions."""
    rows = document["rows"]
    lines = [f"partial: {reason_of(document, 'partial')}"] if document["partial"] else []
    if (stopping := document.get("until_decided")) is not None:
        done, most, saved_s = document["rounds_done"], document["rounds_requested"], stopping["saved_s"]
        end = f"decided after {done} of {most} rounds, {saved_s / 60:.1f} min less"
        end = end if stopping["decided"] else f"not decided in {done} rounds"
        lines.append(f"{end}: the ratios' intervals and tests hold at each look, and are wider for it")
    lines += [f"{left['label']} was left out: {left['reason']}" for left in document["left_out"]]
    for again in document.get("repeated", []):
        lines.append(
            f"round {again['round']} was made again: {again['label']} was INVALID ({', '.join(again['failed'])})"
        )
    for label, tuned in document.get("tuned", {}).items():
        lines.append(f"{label} was tuned first, {tuned['outcome']}: {tuned['reason']}; it ran with {tuned['taken']}")
    precisions = sorted({str(row["precision"]) for row in rows})
    if len(precisions) > 1:
        what = "quality" if any(row.get("quality") for row in rows) else "the agreement of the outputs"
        lines.append(f"precisions differ ({', '.join(precisions)}): {what} counts, too")
    if any(only_agreement(row, row["output_agreement"]) for row in rows):
        lines.append(RANDOM_WEIGHTS)
    for row in rows:
        if not row["verdict"]["valid"]:
            counted = ", ".join(f"{name} in {count}" for name, count in row["verdict"]["failed"].items())
            remedy = row["verdict"].get("remedy")
            lines.append(f"{row['label']}: {_rounds_valid(row)}; {counted}{f': {remedy}' if remedy else ''}")
    named = (f"{name}: {reason}" for name, reason in _gaps(rows, wanted=True))
    return [*lines, *_scored(rows), *_noise(rows, document["turns"]), *named]


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


def _noise(rows: Sequence[ComparisonRow], turns: Sequence[ComparisonTurn]) -> Iterator[str]:
    """Report the noise of the machine in the rounds."""
    counted = [(row["label"], row["verdict"]["unsteady_rounds"], row["rounds"]) for row in rows]
    unsteady = [f"{label} {count} of {of}" for label, count, of in counted if count]
    if unsteady:
        yield f"rounds whose windows scattered count; the intervals include their noise: {', '.join(unsteady)}"
    rates = {
        row["label"]: [each["inferences_per_s"] for each in turns if each["label"] == row["label"]] for row in rows
    }
    apart = [
        f"{row['label']} {figure(min(rates[row['label']]))} to {figure(max(rates[row['label']]))}"
        for row in rows
        if (row["variation"]["inferences_per_s"] or 0.0) > _APART
    ]
    if apart:
        yield (
            f"rounds of one engine lay far apart ({', '.join(apart)} inferences/s): no single figure describes it. Its "
            "percentiles are those of all requests, of which a fast round has more; the ratios count each round once"
        )
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


def _gaps(rows: Sequence[ComparisonRow], *, wanted: bool) -> Iterator[tuple[str, str]]:
    """Name and reason of each dash, once for all engines that share it: of the shown columns, or of the others."""
    reasons: dict[tuple[str, str], list[str]] = {}
    unasked = {name for name in _UNASKED if name != "max rate" or not any(row["max_rate"] for row in rows)}
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
            "CPU ms/inference": reason_of(row.get("footprint", {"cpu_s": 0}), "cpu_s"),
            "memory MiB": reason_of(row.get("footprint", {"memory_bytes": 0}), "memory_bytes"),
        }
        for name, reason in found.items():
            if reason and (name in unasked) is not wanted:
                reasons.setdefault((name, str(reason)), []).append(row["label"])
    for (name, reason), labels in reasons.items():
        yield name, reason if len(labels) == len(rows) else f"{reason} ({', '.join(labels)})"


def _tables(document: ComparisonDocument) -> Iterator[Table]:
    """Yield the tables: circumstances, figures, and ratios to the first engine; columns of dashes only are left out."""
    subjects: dict[str, Column] = {
        "device": engines.device,
        "instances x threads": engines.layout,
        "precision": lambda row: str(row["precision"] or "?"),
        "outputs against fp32": _outputs,
        "tuned": lambda row: _tuned(document, row),
    }
    measured: dict[str, Column] = {
        "p50 ms": lambda row: figure(row["latency_ms"]["p50"]),
        "p99 ms": lambda row: figure(row["latency_ms"]["p99"]),
        "inferences/s": lambda row: figure(row["inferences_per_s"]["mean"]),
        "in flight": lambda row: figure(each["mean"] if (each := row.get("in_flight")) else None),
        "max rate": lambda row: figure(row["max_rate"] and row["max_rate"]["rate"]),
        "J/inference": _joules,
        "quality": _quality,
        "of fp32's": _kept,
        "variation": lambda row: "-" if row["variation"]["p50"] is None else f"{row['variation']['p50']:.1%}",
        "verdict": _verdict,
    }
    taken: dict[str, Column] = {
        "version": lambda row: str(servers[row["label"]]["version"] or "?"),
        "requests": lambda row: servers[row["label"]]["requests"],
        "start-up s": lambda row: _of_footprint(row, "startup_s"),
        "CPU ms/inference": lambda row: _of_footprint(row, "cpu_ms_per_inference"),
        "memory MiB": lambda row: _of_footprint(row, "memory_bytes", 1 << 20),
        "joins requests": lambda row: servers[row["label"]]["batching"] or "no",
    }
    first, rows, servers = document["baseline"], document["rows"], document.get("servers", {})
    what = "server" if servers else "engine"
    yield _columns(what, rows, measured)
    others = {f"{name} ratio": lambda row, key=key: _ratio(key, row) for name, key in RATIOS.items()}
    yield _columns(f"against {first}", [row for row in rows if row["label"] != first], others)
    if servers:
        yield _columns(what, rows, taken)
    yield _columns(what, rows, subjects)


def _of_footprint(row: ComparisonRow, key: FootprintName, unit: float = 1.0) -> str:
    """Format one of the resources of an engine's server."""
    value = row["footprint"][key] if "footprint" in row else None
    return figure(None if value is None else value / unit)


def _columns(first: str, rows: Sequence[ComparisonRow], columns: Mapping[str, Column]) -> Table:
    """A table with a row for each engine."""
    cells = [[str(row["label"]), *(cell(row) for cell in columns.values())] for row in rows]
    return Table.known([first, *columns], cells, _ALWAYS)


def _tuned(document: ComparisonDocument, row: ComparisonRow) -> str:
    """Format the outcome of an engine's tuning: "better, 1.32", "same", "undecided"."""
    found = document.get("tuned", {}).get(row["label"])
    if found is None:
        return "-"
    better = found["outcome"] == "better" and found["ratio"]
    return f"better, {better['value']:.2f}" if better else str(found["outcome"])


def _joules(row: ComparisonRow) -> str:
    joules = row["energy"]["joules_per_inference"]
    if joules is None:
        return "-"
    ends = row["energy"].get("ci95")
    interval = f", {interval_words(ends)}" if ends else ""
    return f"{figure(joules)} ({row['energy']['boundary']}{interval})"


def _quality(row: ComparisonRow) -> str:
    """Format the score of the answers: "HR@10 0.6543 (0.6243 to 0.6840)"."""
    found = row.get("quality")
    if found is None or found["value"] is None:
        return "-"
    interval = "" if found["ci95"] is None else f" ({score(found['ci95'][0])} to {score(found['ci95'][1])})"
    return f"{found['metric']} {score(found['value'])}{interval}"


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


def _rounds_valid(row: ComparisonRow) -> str:
    return f"{row['verdict']['valid_rounds']} of {row['rounds']} rounds VALID"


def _verdict(row: ComparisonRow) -> str:
    verdict, rounds, missed = row["verdict"], row["rounds"], row["verdict"]["objective_missed"]
    words = "VALID" if verdict["valid"] else f"INVALID: {_rounds_valid(row)}"
    if missed is None:
        return words
    return f"{words}, {f'MISSED in {missed} of {rounds} rounds' if missed else 'MET'}"


def _ratio(name: RatioName, row: ComparisonRow) -> str:
    """An engine against the first: below 1 is faster for latencies, above 1 for throughput and rate."""
    ratio = row["ratio"][name]
    if ratio is None:
        return "-"
    # The runs that met a rate are VALID, whatever the rounds were.
    shown = f"{ratio['value']:.3f}" + ("*" if row["ratio"].get("of_invalid_runs") and name != "max_rate" else "")
    if ratio["ci95"] is None:
        return shown
    note = "" if ratio["significant"] else ", not significant"
    return f"{shown} ({interval_words(ratio['ci95'], 3)}{note})"


def _rounds(document: ComparisonDocument) -> list[Block]:
    """Every run in the order in which it was made."""
    rows = [
        [
            *(str(turn["round"]), turn["label"], figure(turn["p50_ms"]), figure(turn["inferences_per_s"])),
            "VALID" if turn["valid"] else f"INVALID ({', '.join(turn['failed'])})",
            *((turn["objective"] or "-").upper(), turn["directory"]),
        ]
        for turn in document["turns"]
    ]
    what = "server" if document.get("servers") else "engine"
    head = ["round", what, "p50 ms", "inferences/s", "verdict", "objective", "folder"]
    return [Table(head, rows, caption=f"{len(rows)} runs in order", folded=True)]


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each engine, or server."""
    document = saved.document
    return [
        {
            "workload": document["workload"],
            **{key: row[key] for key in ("label", "engine", "device", "precision")},
            "batch_size": document["batch_size"],
            "valid": row["verdict"]["valid"],
            "failed_constraints": " ".join(row["verdict"]["failed"]),
            "rounds": row["rounds"],
            "requests.answered": row["latency_ms"]["count"],
            "throughput.inferences_per_s": row["inferences_per_s"]["mean"],
            **{f"latency.{key}_ms": row["latency_ms"][key] for key in ("p50", "p90", "p99")},
            "max_rate.rate_per_s": row["max_rate"] and row["max_rate"]["rate"],
            "energy.per_inference_j": row["energy"]["joules_per_inference"],
            **low_and_high("energy.per_inference_j", row["energy"].get("ci95")),
            **{name: row.get("footprint", {}).get(name) for name in get_args(FootprintName)},
            "quality": (row.get("quality") or {}).get("value"),
            "quality_of_fp32": (row.get("quality") or {}).get("of_fp32"),
            "baseline": document["baseline"],
            **{name: value for key in ("p50", "p99", "inferences_per_s") for name, value in _record(row, key).items()},
        }
        for row in document["rows"]
    ]


def _record(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    ratio = row["ratio"][key] or {}
    return {f"{key}_ratio": ratio.get("value"), **low_and_high(f"{key}_ratio", ratio.get("ci95"))}


def checks(saved: Saved) -> Iterator[Check]:
    """The rounds and the objective of each engine, who was left out, and what a gate asks."""
    document = saved.of(ComparisonDocument)
    for row in document["rows"]:
        verdict, subject, of = row["verdict"], f"{document['workload']}.{row['label']}", row["rounds"]
        counted = ", ".join(f"{name} in {count} of {of}" for name, count in verdict["failed"].items())
        note = verdict.get("remedy") or counted
        yield Check("rounds", verdict["valid"], _verdict(row), counted, note=note, subject=subject)
        if (missed := verdict["objective_missed"]) is not None:
            yield Check("objective", not missed, "", note=f"missed in {missed} of {of} rounds", subject=subject)
    for left in document["left_out"]:
        yield Check("takes part", None, "-", note=left["reason"], subject=f"{document['workload']}.{left['label']}")
    if gate := document.get("gate"):
        yield from difference.judged(gate)
