"""Sections of a run beside its latencies: its figures, search, servers, workloads, workers, commands, cold start."""

from collections.abc import Sequence
from typing import Any

from servemark.figures.registry import count_of, in_order, value_of
from servemark.figures.value import Figures, FigureValue
from servemark.quantities import figure, interval_words, with_interval
from servemark.results.objectives import latency_objective, parse_objectives
from servemark.results.schema.header import figure_of, reason_of
from servemark.results.schema.run import Result
from servemark.results.schema.search import MaxRateSearch, RatePoint
from servemark.results.verdict import said, verdict_words
from servemark.views.blocks import Block, Figure, Lines, Routine, Table
from servemark.views.charts import Bar
from servemark.views.drawing import BAD, GOOD, Plot, linear, logarithmic
from servemark.views.wording import cells, values


def found_rate(found: MaxRateSearch, slo: str) -> str:
    """Format the outcome of a search for the highest rate in one sentence."""
    if found["rate"] is None:
        # That the server missed the objective at each rate is an answer; any other reason leaves the rate open.
        rate = "none" if found["bottleneck"] == "server" else "no rate to quote yet"
    else:
        interval = "" if _is_lower_bound(found) else f" (95 % interval {interval_words(found['ci95'])})"
        rate = f"{_highest(found)} requests/s{interval}"
    return f"highest rate with {slo}: {rate}; {found['reason']}"


def _highest(found: MaxRateSearch) -> str:
    """Format the rate that a search found: "2,684", "at least 1,808"."""
    return f"{'at least ' if _is_lower_bound(found) else ''}{figure(found['rate'])}"


def _is_lower_bound(found: MaxRateSearch) -> bool:
    """Return True if the server may serve more than the rate that the search found."""
    return found["ci95"] is None or found["ci95"][1] is None


def search(result: Result) -> list[Block]:
    """Each run's latency over its rate."""
    found = result["max_rate"]
    slowest = latency_objective(parse_objectives(result["request"]["objectives"]["slo"]))
    name = slowest.name if slowest else "latency"
    points = found["points"]
    plot = Plot(
        f"{name} of each run over its rate",
        linear("requests/s on the schedule", [point["rate"] for point in points], from_zero=False),
        logarithmic(f"{name}, ms", [*(point["latency_ms"] for point in points), slowest.limit if slowest else None]),
    )
    low, high = found.get("ci95") or (None, None)
    if low is not None and high is not None:
        plot.band(low, high)
    for words, met, colour in (("met", True, GOOD), ("not met", False, BAD)):
        for form, valid in (("dot", True), ("hollow", False)):
            shown = [
                (point["rate"], point["latency_ms"], _of_point(number, point))
                for number, point in enumerate(points, 1)
                if point["met"] is met and point["valid"] is valid
            ]
            plot.dots(shown, words if valid else f"{words}, INVALID", colour, form)
    if slowest:
        plot.levels([(f"objective {slowest.name} {slowest.limit:g} ms", slowest.limit)])
    if found["rate"] is not None:
        plot.mark(found["rate"], f"{_highest(found)}/s")
    rows = [
        [
            f"{number}",
            figure(point["rate"]),
            figure(point["latency_ms"]),
            verdict_words(point["failed"], point["objective"]),
            "met" if point["met"] else f"not met: {point['bottleneck']}",
        ]
        for number, point in sorted(enumerate(points, 1), key=lambda each: each[1]["rate"])
    ]
    table = Table(["run", "requests/s", f"{name} ms", "verdict", "rate"], rows)
    note = "" if all(point["valid"] for point in points) else "hollow: the run is INVALID"
    return [Figure.of(plot, f"{name} over the rate", table, note=note, tabled=True)]


def _of_point(number: int, point: RatePoint) -> str:
    """One run."""
    verdict = verdict_words(point["failed"], point["objective"])
    return f"run {number}: {figure(point['latency_ms'])} ms at {figure(point['rate'])}/s; {verdict}"


_PARTS = {
    "queue": "server.queue",
    "prepare inputs": "server.compute_input",
    "run the model": "server.compute_infer",
    "prepare outputs": "server.compute_output",
}
_OUTSIDE = "network, protocol, generator"


def breakdown(result: Result) -> list[Figure]:
    """The mean times of a request in the server, and what is left of the service time; none without statistics."""
    service = value_of(result, "service_time.mean")
    parts = {name: value_of(result, tag) for name, tag in _PARTS.items()}
    known = [value for value in parts.values() if value is not None]
    if len(known) < len(parts):
        return []
    if service is not None:
        parts[_OUTSIDE] = max(service - sum(known), 0.0)
    whole = sum(value or 0.0 for value in parts.values())
    drawn = [
        Bar(name, value, None, number, unit=" ms", said=f"{(value or 0.0) / whole:.1%}" if whole else "-")
        for number, (name, value) in enumerate(parts.items())
    ]
    head, note = ["part", "ms", "share"], f"Mean service time: {figure(service)} ms."
    return [Figure.of_bars("Where the service time went", "ms, mean of a request", drawn, head, note=note)]


def batches(result: Result) -> list[Figure]:
    """Plot the number of executed batches by size; none if the server does not report it."""
    sizes = {int(size): count for size, count in (result["details"]["server"]["batch_sizes"] or {}).items()}
    if len(sizes) < 2:
        return []
    whole = sum(sizes.values())
    plot = Plot("Executed batches by size", logarithmic("samples", sizes), linear("batches", sizes.values()))
    plot.stems([(float(size), float(count)) for size, count in sorted(sizes.items())], "executed batches", 2)
    rows = [[f"{size}", f"{count:,}", f"{count / whole:.1%}"] for size, count in sorted(sizes.items())]
    return [Figure.of(plot, "Executed batches by size", Table(["samples", "batches", "share"], rows))]


def servers(result: Result) -> list[Table]:
    """A row for each of several servers; none where one took all requests."""
    head = ["server", "requests", "failed", "p50 ms", "p99 ms", "failures"]
    rows = [
        [
            *(
                each["url"],
                f"{count_of(each, 'requests.answered') + count_of(each, 'errors.count'):,}",
                f"{count_of(each, 'errors.count'):,}",
            ),
            *values(each, ("latency.p50", "latency.p99")),
            ", ".join(f"{kind} {count:,}" for kind, count in each["errors_by_kind"].items()),
        ]
        for each in result["details"].get("servers", [])
    ]
    return [Table(head, rows)]


def sizes(result: Result) -> list[str]:
    """Say what compression did to requests and answers; nothing where none was asked for."""
    if "compression.compressed_answers" not in result["figures"]:
        return []
    words = [
        f"{what} {before:,.0f} to {after:,.0f} bytes ({after / before:.0%})"
        for what, made, came in (
            ("requests", "compression.request_bytes", "compression.request_sent_bytes"),
            ("answers", "compression.answer_bytes", "compression.answer_received_bytes"),
        )
        if (before := value_of(result, made)) and (after := value_of(result, came))
    ]
    asked = result["request"]["server"]["response_compression"] != "none"
    if asked and not count_of(result, "compression.compressed_answers"):
        words.append("no answer came compressed")
    return [f"compression: {', '.join(words)}"]


def cancelled(result: Result) -> list[str]:
    """Say what became of the requests that were to be given up; nothing where none were."""
    found, given = result["details"].get("cancellation"), result["request"]["limits"].get("request_cancellation")
    if found is None or not given:
        return []
    failed = f", {sum(found['failed'].values()):,} failed" if found["failed"] else ""
    cancelled, requests, answered = (
        count_of(result, f"cancellation.{name}") for name in ("cancelled", "requests", "answered")
    )
    return [
        f"cancelled: {cancelled:,} of {requests:,} requests that were to be given up after "
        f"{given[1]:g} s; {answered:,} were answered before{failed}; they count in no other figure"
    ]


_COLD = ("load_s", "first_answer_ms", "steady_after_s", "cold_start_s")


def commands(result: Result) -> list[Block]:
    """The commands that were run beside the load, and the recovery from each."""
    head = ["at s", "command", "exit code", "percentile", "before ms", "at worst ms", "failed", "recovered after s"]
    rows = [
        [
            *(f"{each['at_s']:.1f}", each["command"], "-" if each["exit_code"] is None else str(each["exit_code"])),
            *(each["percentile"] or "-", *cells(each, ("before_ms", "worst_ms")), f"{each['errors']:,}"),
            "not by the end" if each["recovered"] is False else figure(each["recovery_s"]),
        ]
        for each in result.get("commands", [])
    ]
    reasons = [
        f"{each['command']}: {reason}"
        for each in result.get("commands", [])
        if (reason := reason_of(each, "recovery_s")) is not None
    ]
    said = [f"{each['command']} said: {each['said']}" for each in result.get("commands", []) if each["exit_code"]]
    return [Table(head, rows), Lines([*reasons, *said])]


def cold_start(result: Result) -> list[Block]:
    """The parts of a cold start, and the reason where one is not known."""
    found = result.get("cold_start")
    if found is None:
        return []
    which = found["percentile"] or "latency"
    values = {
        "load s": found["load_s"],
        "first answer ms": found["first_answer_ms"],
        f"first {which} ms": found["first_second_ms"],
        f"last {which} ms": found["last_ms"],
        "steady after s": found["steady_after_s"],
        "cold start s": found["cold_start_s"],
    }
    lines = [f"{key}: {reason}" for key in _COLD[:-1] if (reason := reason_of(found, key)) is not None]
    if found["waited_s"] is not None:
        lines.append(Routine(f"the server was ready for {figure(found['waited_s'])} s before the load began"))
    return [Table([*values], [[figure(value) for value in values.values()]]), Lines(lines)]


def cold_starts(results: Sequence[Result]) -> list[Block]:
    """The parts of the cold start of each of several runs."""
    rows = [
        [str(number), *map(figure, cold_start_cells(result).values())]
        for number, result in enumerate(results, 1)
        if "cold_start" in result
    ]
    return [Table(["run", "load s", "first answer ms", "steady after s", "cold start s"], rows)]


def cold_start_cells(result: Result) -> dict[str, Any]:
    """The parts of a cold start for a row of a spreadsheet; none of another run."""
    found = result.get("cold_start")
    names = {key: f"cold_start_{key.removeprefix('cold_start_')}" for key in _COLD}
    return {name: found and figure_of(found, key) for key, name in names.items()}


class Told(dict[str, FigureValue]):
    """Figures of a document that remember which were read, so that a report can end with the others."""

    def __init__(self, figures: Figures) -> None:
        super().__init__(figures)
        self._read: set[str] = set()

    def get(self, tag: str, default: Any = None) -> Any:
        """Return a figure, and remember it."""
        self._read.add(tag)
        return super().get(tag, default)

    def others(self) -> list[str]:
        """Return a line for each subject with figures that were not read; distributions have rows, details a page."""
        lines: dict[str, list[str]] = {}
        for each, found in in_order(self):
            told = each.tag in self._read or each.distribution or each.detail
            if not told and found["value"] is not None:
                words = with_interval(f"{figure(found['value'])} {each.unit.name}".rstrip(), found.get("ci95"))
                lines.setdefault(each.subject, []).append(f"{each.name} {words}")
        return [f"{subject.replace('_', ' ')}: {', '.join(words)}" for subject, words in lines.items()]


def table_of(figures: Figures) -> Table:
    """Return all figures, with their intervals, their samples, or why they are not known."""
    rows = [
        [
            each.tag,
            figure(found["value"]),
            each.unit.name,
            interval_words(found.get("ci95")),
            f"{found['n']:,}" if "n" in found else "",
            found.get("reason", ""),
        ]
        for each, found in in_order(figures)
    ]
    return Table(
        ["figure", "value", "unit", "95 % interval", "n", "not known because"], rows, "All figures", folded=True
    )


def mix(result: Result) -> list[Block]:
    """List the workloads of a mix."""
    head = ["workload", "share", "requests/s", "p50 ms", "p90 ms", "p99 ms", "failed", "verdict"]
    rows = [
        [
            *(part["workload"], f"{part['share']:.1%}", *values(part, ("throughput.requests",))),
            *values(part, ("latency.p50", "latency.p90", "latency.p99")),
            *(f"{count_of(part, 'errors.count'):,}", said(part["verdict"])),
        ]
        for part in result.get("mix", [])
    ]
    return [Table(head, rows)]


def workers(result: Result) -> list[Block]:
    """List the processes that sent the load."""
    head = ["worker", "host", "requests", "schedule delay p99 ms", "share of a core", "in flight at most", "trouble"]
    rows = [
        [
            *(str(worker["index"]), worker["host"], f"{worker['requests']:,}"),
            *cells(worker, ("schedule_delay_p99_ms", "cpu_utilization")),
            *(f"{worker['max_in_flight']:,}", worker["trouble"] or ""),
        ]
        for worker in result.get("workers", [])
    ]
    return [Table(head, rows)]
