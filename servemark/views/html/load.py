"""A run as a page: one load, a mix, or the run that stands for a search of the highest rate."""

from typing import Any

from servemark.results.objectives import MET, MISSED, parse_objectives
from servemark.results.saved import Saved
from servemark.results.schema.header import figure_of
from servemark.results.schema.run import JudgedObjective, Result, VerdictOfRun
from servemark.results.verdict import said
from servemark.views.headline import answer
from servemark.views.page.blocks import Article, Badge, Block, Lines, Section, Table
from servemark.views.plots.circumstances import configuration, environment, made
from servemark.views.plots.distribution import Level, by_percentile, cumulated
from servemark.views.plots.machine import machine
from servemark.views.plots.max_rate import search
from servemark.views.plots.over_time import heatmap, windows
from servemark.views.plots.server import batches, breakdown
from servemark.views.terminal.load import COLUMNS, confidence, facts, heading, of_constraint
from servemark.views.wording import answer as found_rate
from servemark.views.wording import figure, interval_words, rate

_HISTOGRAMS = {"latency_us": "latency", "service_time_us": "service time"}


def article(saved: Saved) -> Article:
    """The answer, what it means, and everything that was measured."""
    result = saved.of(Result)
    return Article(
        about=heading(result).plain,
        answer=found_rate(result["max_rate"], result["request"]["objectives"]["slo"])
        if "max_rate" in result
        else answer(result),
        sections=[
            Section("Search for the highest rate", search(result) if "max_rate" in result else []),
            Section("Verdict of the run that stands for it" if "max_rate" in result else "Verdict", verdict(result)),
            Section("Workloads of the mix", _mix(result)),
            Section("Latency", latency(saved)),
            Section("Over time", _over_time(saved)),
            Section("Server", [part for part in (breakdown(result["metrics"]), batches(result["metrics"])) if part]),
            Section("Machine and energy", machine(saved)),
            Section("Workers", _workers(result)),
            Section("Configuration and environment", [*configuration(result), *environment(result)]),
        ],
        badges=badges(result["verdict"], partial=result["partial"]),
        made=made(result),
    )


def badges(verdict: VerdictOfRun, *, partial: bool = False) -> list[Badge]:
    """VALID or INVALID, and MET, MISSED or UNDECIDED."""
    found = [Badge("VALID", "good") if verdict["valid"] else Badge("INVALID", "bad")]
    if objective := verdict["objective"]:
        found.append(Badge(objective.upper(), {MET: "good", MISSED: "bad"}.get(objective, "open")))
    return [*found, Badge("PARTIAL", "bad")] if partial else found


def verdict(result: Result) -> list[Block]:
    """Explain the verdict, then list each objective and each constraint; failed ones name their remedy."""
    found = result["verdict"]
    parts: list[Block] = [Lines(_meaning(found))]
    if found["objectives"]:
        missed = [number for number, each in enumerate(found["objectives"]) if each["status"] != MET]
        head = ["objective", "answer", "value", "limit", "unit", "how sure, and what to do"]
        parts.append(Table(head, [_objective(each) for each in found["objectives"]], marked=missed))
    return [*parts, constraints(found)]


def constraints(found: VerdictOfRun) -> Table:
    """Each constraint with its value, its limit and, where it does not hold, its remedy."""
    rows = [
        [
            each["name"],
            "Yes" if each["ok"] else "No",
            *of_constraint(each),
            each["unit"],
            "" if each["ok"] else each["remedy"],
        ]
        for each in found["constraints"]
    ]
    rows += [[name, "-", "-", "-", "", f"not judged: {why}"] for name, why in found.get("skipped", {}).items()]
    failed = [number for number, each in enumerate(found["constraints"]) if not each["ok"]]
    head = ["constraint", "holds", "value", "limit", "unit", "what to do"]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return Table(head, rows, marked=failed)


def latency(saved: Saved) -> list[Block]:
    """The table of the terminal, its facts, and the distributions from the saved histograms."""
    result = saved.of(Result)
    metrics = result["metrics"]
    rows: list[tuple[str, Any]] = [("latency", metrics["latency_ms"]), ("service time", metrics["service_time_ms"])]
    rows += [("schedule delay", metrics["schedule_delay_ms"])] if result["scenario"]["mode"] != "closed" else []
    head = ["ms", *(column.replace("_", ".") for column in COLUMNS), "95 % interval of p50", "of p99"]
    cells = [
        [
            name,
            *(figure(figure_of(group, column)) for column in COLUMNS),
            _interval(group, "p50"),
            _interval(group, "p99"),
        ]
        for name, group in rows
    ]
    parts: list[Block] = [Table(head, cells), Lines([line.plain for line in facts(result, everything=True)])]
    found = {words: saved.histograms[key] for key, words in _HISTOGRAMS.items() if key in saved.histograms}
    found = {words: histogram for words, histogram in found.items() if histogram.count}
    if found:
        levels = limits(result)
        return [*parts, by_percentile(found, levels), cumulated(found, levels)]
    return [*parts, Lines(["no distribution: no histograms.json with answered requests beside the result"])]


def limits(result: Result) -> list[Level]:
    """The objectives on a latency, in words and in ms."""
    found = [slo for slo in parse_objectives(result["request"]["objectives"]["slo"]) if slo.timed]
    return [(f"objective {slo.name} {slo.limit:g} ms", slo.limit) for slo in found]


def _meaning(found: VerdictOfRun) -> list[str]:
    failed = [each["name"] for each in found["constraints"] if not each["ok"]]
    judged = len(found["constraints"])
    if failed:
        lines = [f"INVALID: the figures cannot be quoted. {len(failed)} of {judged} constraints do not hold."]
    else:
        lines = [f"VALID: the figures can be quoted. All {judged} constraints hold."]
    words = {
        "met": "MET: every objective was kept.",
        "missed": "MISSED: an objective was not kept.",
        "undecided": "UNDECIDED: too few requests to tell whether the objective was kept.",
    }
    return [*lines, *([words[found["objective"]]] if found["objective"] else [])]


def _objective(judged: JudgedObjective) -> list[str]:
    sure = [confidence(judged["shown"])] if judged["shown"] else []
    do = [judged["remedy"]] if judged["status"] != MET else []
    figures = figure(judged["value"]), figure(judged["limit"])
    return [judged["objective"], judged["status"].upper(), *figures, judged["unit"], "; ".join([*sure, *do])]


def _interval(group: Any, key: str) -> str:
    found = group["ci95"].get(key)
    return interval_words(found) if found else "-"


def _over_time(saved: Saved) -> list[Block]:
    result = saved.of(Result)
    levels = limits(result)
    parts: list[Block] = [*windows(result, levels)]
    if saved.requests is None:
        return [*parts, Lines(["no heatmap: no requests.csv beside the result; --request-log keeps one"])]
    seconds = result["scenario"]["measured_s"] or result["scenario"]["duration_s"]
    drawn = heatmap(saved.requests, seconds, levels)
    parts.append(drawn or Lines(["no heatmap: no request of the log succeeded"]))
    return [*parts, *_stages(result)]


def _stages(result: Result) -> list[Block]:
    head = ["stage from s", "for s", "asked for/s", "answered/s", "failed", "p50 ms", "p99 ms"]
    rows = [
        [
            f"{stage['start_s']:g}",
            f"{stage['duration_s']:g}",
            f"{stage['requested_rate']:g}",
            rate(stage["requests_per_s"]),
            f"{stage['errors']:,}",
            figure(stage["latency_ms"]["p50"]),
            figure(stage["latency_ms"]["p99"]),
        ]
        for stage in result["stages"]
    ]
    return [Table(head, rows, caption="Stages")] if rows else []


def _mix(result: Result) -> list[Block]:
    head = ["workload", "share", "requests/s", "p50 ms", "p90 ms", "p99 ms", "failed", "verdict"]
    rows = []
    for part in result.get("mix", []):
        metrics = part["metrics"]
        group = metrics["latency_ms"]
        figures = (figure(group["p50"]), figure(group["p90"]), figure(group["p99"]), f"{metrics['errors']['count']:,}")
        per_s = rate(metrics["throughput"]["requests_per_s"])
        rows.append([part["workload"], f"{part['share']:.1%}", per_s, *figures, said(part["verdict"])])
    return [Table(head, rows)] if rows else []


def _workers(result: Result) -> list[Block]:
    head = ["worker", "host", "requests", "schedule delay p99 ms", "share of a core", "in flight at most", "trouble"]
    rows = [
        [
            str(worker["index"]),
            worker["host"],
            f"{worker['requests']:,}",
            figure(worker["schedule_delay_p99_ms"]),
            figure(worker["cpu_utilization"]),
            f"{worker['max_in_flight']:,}",
            worker["trouble"] or "",
        ]
        for worker in result.get("workers", [])
    ]
    return [Table(head, rows)] if rows else []
