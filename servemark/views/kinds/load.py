"""A run: one load, a mix, or the run that stands for a search of the highest rate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from servemark.compare.quality import agreement_of
from servemark.documents.load import ClosedLoop, ConstantRate
from servemark.documents.saved_load import describe, load_of, title_of
from servemark.figures.registry import count_of, distributions, in_order, interval_of, value_of, why_unknown
from servemark.figures.value import Figures, FigureValue
from servemark.library import read_requests
from servemark.quantities import figure, interval_words, text_of, with_interval
from servemark.results.constraint_kinds import Kind
from servemark.results.objectives import parse_objectives
from servemark.results.saved import Saved
from servemark.results.schema.details import BOTH, KERNEL, PROCESS, ErrorDetails
from servemark.results.schema.run import Result, Scenario, Worker
from servemark.results.verdict import failed_constraints, said
from servemark.stats.order_statistics import BOUND_CONFIDENCE
from servemark.stats.percentiles import PERCENTILES
from servemark.views.blocks import Article, Block, Check, Lines, Routine, Section, Table
from servemark.views.kinds.quality import score_words
from servemark.views.plots.explanation import slow_requests
from servemark.views.plots.latency import Level, by_percentile, cumulated, heatmap, windows, worst_seconds
from servemark.views.plots.machine import OWN, machine
from servemark.views.plots.run import (
    batches,
    breakdown,
    cancelled,
    cold_start,
    cold_start_cells,
    commands,
    search,
    servers,
    sizes,
)
from servemark.views.shape import PARTIAL, configuration, environment, made
from servemark.views.verdict import answer, badges, judged, meaning, verdict_of
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, cells, columns, listed, only_agreement, values
from servemark.views.wording import answer as found_rate

Document = TypeVar("Document")
ALIKE = 0.999999
"""Outputs of such a cosine are equal but for rounding."""
COLUMNS = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
_ROWS = ("latency", "service_time", "schedule_delay", "first_answer", "between_answers", "connect", "tls", "first_byte")
"""Distributions that a reader sees first; any other stands below."""
_HISTOGRAMS = {"latency_us": "latency", "service_time_us": "service time"}


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


def article(saved: Saved) -> Article:
    """The answer, what was measured, the verdict, and the plots."""
    told = Told(saved.of(Result)["figures"])
    result: Result = {**saved.of(Result), "figures": told}
    found = result.get("max_rate")
    stands = "The run that stands for it" if found and found["rate"] is not None else "The run at the lowest rate"
    return Article(
        about=heading(result),
        answer=found_rate(found, result["request"]["objectives"]["slo"]) if found else answer(result),
        explained=meaning(result["verdict"]),
        sections=[
            Section("Why it is slow", slow_requests(result), titled=True),
            Section("Search for the highest rate", search(result) if found else []),
            Section(stands, [Lines([answer(result)])] if found else [], titled=True),
            Section("Latency", [_latencies(result), Lines([*facts(saved, result), *told.others()])]),
            Section("Cold start", cold_start(result)),
            Section("Commands", commands(result)),
            Section("Servers", servers(result)),
            Section("Verdict", [verdict_of(result["verdict"])]),
            Section("Workloads of the mix", _mix(result)),
            Section("Distribution of latencies", lambda: _distributions(saved)),
            Section("Over time", lambda: _over_time(saved)),
            Section("Server", lambda: [*breakdown(result), *batches(result)]),
            Section("Machine and energy", lambda: machine(saved)),
            Section("Workers", lambda: _workers(result)),
            Section("Figures", lambda: [table_of(result["figures"])]),
            Section("Configuration and environment", lambda: [*configuration(result), *environment(result)]),
        ],
        badges=[*badges(result["verdict"]), *([PARTIAL] if result["partial"] else [])],
        made=made(result),
    )


def heading(result: Result) -> str:
    """Name the workload, the server and the load of a run."""
    scenario = result["scenario"]
    seconds = f"{scenario['duration_s']:g} s"
    if (measured_s := scenario["measured_s"] or 0.0) > scenario["duration_s"]:
        seconds += f" prolonged to {measured_s:.3g} s"
    elif result["partial"] and measured_s < scenario["duration_s"]:
        seconds = f"{measured_s:.2g} of {seconds}"
    if scenario["warmup_s"] and "warmup" in scenario:
        seconds += f" after {scenario['warmup_s']:.2g} s of warm-up"
    known: list[str | None] = [result["engine"], result["device"], result["precision"], result["protocol"]]
    if "json" in {result["resolved"].get(f"{which}_tensor_format") for which in ("input", "output")}:
        known.append("JSON tensors")
    where = ", ".join(str(each) for each in known if each)
    sizes = sorted({part["batch_size"] for part in result.get("mix", [])}) or [result["batch_size"]]
    return f"{result['workload']} on {where}  |  {title_of(result)}, batch {listed(list(map(str, sizes)))}, {seconds}"


def _latencies(result: Result) -> Table:
    """A row for each distribution that the run has, in the order of a request's way."""
    closed = isinstance(load_of(result), ClosedLoop)
    places = {tag: number for number, tag in enumerate(_ROWS)}
    shown = [
        each
        for each in sorted(distributions().values(), key=lambda each: places.get(each.tag, len(places)))
        if f"{each.tag}.mean" in result["figures"]
        and not each.detail
        and not (closed and each.tag in {"service_time", "schedule_delay"})
    ]
    head = ["ms", *COLUMNS, "95 % interval of p50", "95 % interval of p99"]
    rows = [
        [
            each.name,
            *values(result, [f"{each.tag}.{column}" for column in COLUMNS]),
            *(interval_words(interval_of(result, f"{each.tag}.{key}")) for key in ("p50", "p99")),
        ]
        for each in shown
    ]
    return Table(head, rows, narrow=1 + len(COLUMNS))


def facts(saved: Saved, result: Result) -> list[str]:
    """List the facts besides the latencies, one a line."""
    counts = f"{count_of(result, 'requests.answered'):,} succeeded, {count_of(result, 'errors.count'):,} failed"
    counts += _kinds(result["details"]["errors"])
    requests, inferences = values(result, ("throughput.requests", "throughput.inferences"))
    whole = f"{requests} requests/s, {inferences} inferences/s; {counts}"
    lines = [whole if result["batch_size"] > 1 else Routine(whole, counts)]
    if "answers.rate" in result["figures"]:
        rate, each = values(result, ("answers.rate", "answers.per_request"))
        lines.append(f"answers: {rate}/s, {each} to a request")
    if "sequence.rate" in result["figures"]:
        lines.append(
            f"sequences: {figure(value_of(result, 'sequence.rate'))}/s of {count_of(result, 'sequence.length')} "
            f"requests, at most {count_of(result, 'sequence.in_flight')} in flight; "
            f"{count_of(result, 'sequence.completed'):,} completed, {count_of(result, 'sequence.broken'):,} broken"
        )
    lines += [*sizes(result), *cancelled(result)]
    tls = result["resolved"].get("tls")
    if tls and tls.get("unverified"):
        lines.append("TLS: the server's certificate was not verified (--tls-insecure), so anybody may have answered")
    lines += [*_scraped(saved), *worst_seconds(saved), *_tail(result)]
    if value_of(result, "server.queue") is not None:
        lines.append(_of_model("server", result))
    lines += [
        f"{_of_model(f'  {name}', part)}; called {figure(value_of(part, 'server.calls'))} times"
        for name, part in result["details"]["server"].get("composing", {}).items()
    ]
    lines += [*_warm_up(result["scenario"]), *_clock(result), *_cpu(result), *_hosts(result.get("workers", []))]
    limited = result["bottleneck"]
    by, evidence = (limited["by"], limited["evidence"]) if limited["by"] else limited["evidence"].split(": ", 1)
    lines += [f"limited by: {by} ({evidence})", _outputs(result)]
    if (scored := result["details"]["quality"].get("score")) is not None:
        lines.append(f"quality: {score_words(scored)}")
    energy = value_of(result, "energy.per_inference")
    if energy is not None:
        ends = interval_of(result, "energy.per_inference")
        interval = f"95 % interval {interval_words(ends)}; " if ends else ""
        lines.append(f"energy: {energy:.3g} J/inference ({interval}{result['details']['energy']['boundary']})")
    else:
        lines.append(Routine(f"energy: not known ({why_unknown(result, 'energy.per_inference')})"))
    return lines


def _scraped(saved: Saved) -> list[str]:
    """Say of each exporter of --scrape that it was read, or why not."""
    found = saved.machine_series
    if not saved.of(Result)["request"]["live"].get("scrape") or found is None:
        return []
    lines: list[str] = []
    for each in found["series"]:
        if each["source"] in OWN:
            continue
        absent = "; ".join(each["absent"].values())
        read = f"{each['readings']} readings of {len(each['columns'])} figures, in series.json"
        lines.append(
            f"scrape {each['source']}: not read ({absent})" if absent else Routine(f"scrape {each['source']}: {read}")
        )
    return lines


def _tail(result: Result) -> list[str]:
    """List the percentiles of the answered requests where some failed, and the bounds that are known."""
    lines = []
    if count_of(result, "errors.count"):
        lines.append("of the answered requests alone: " + (_percentiles(result, "answered_latency") or "not known"))
    if bounds := _percentiles(result, "tail_bound", "<= "):
        lines.append(f"with {BOUND_CONFIDENCE:.0%} confidence: {bounds}")
    return lines


def _percentiles(result: Result, subject: str, sign: str = "") -> str:
    """Format the percentiles that are known: "p50 1.20, p99 3.40 ms"; none: ""."""
    names = [f"p{text_of(each)}" for each in PERCENTILES]
    known = {name: value for name in names if (value := value_of(result, f"{subject}.{name}")) is not None}
    return ", ".join(f"{name} {sign}{figure(value)}" for name, value in known.items()) + " ms" * bool(known)


def _of_model(name: str, found: Mapping[str, object]) -> str:
    """Format the parts of a request's time in the server."""
    if value_of(found, "server.queue") is None:
        return f"{name}: not known ({why_unknown(found, 'server.queue')})"
    tags = ("queue", "compute_input", "compute_infer", "compute_output", "batch_size")
    queue, input_, infer, output, batch = values(found, [f"server.{tag}" for tag in tags])
    return f"{name}: queue {queue} + input {input_} + infer {infer} + output {output} ms; mean executed batch {batch}"


def _outputs(result: Result) -> str:
    """Format the agreement of the answers with the golden ones; short if they agree."""
    agreement = agreement_of([result])
    if not agreement["checked"]:
        return f"outputs: not checked ({why_unknown(result, 'outputs.max_abs_error')})"
    cosine = agreement.get("cosine_min")
    note = f"; {RANDOM_WEIGHTS}" if only_agreement(result, agreement) else ""
    whole = f"outputs: {agreement['checked']} answers checked, {agreement_words(agreement)}{note}"
    # The first choice and the cosine of an output that is too large throughout are right.
    alike = agreement.get("top1_agreement") == 1 and (cosine is None or cosine >= ALIKE)
    if alike and Kind.OUTPUT_AGREEMENT not in failed_constraints(result["verdict"]):
        return Routine(whole, f"outputs: {agreement['checked']} answers checked, all agree")
    return whole


def _clock(result: Result) -> list[str]:
    """Say which clock told when answers came; short where it was the kernel's."""
    clock, unstamped = result["details"].get("clock"), value_of(result, "clock.unstamped")
    if clock is None or (clock["receive"] == PROCESS and unstamped is None):
        return []
    if clock["receive"] == KERNEL:
        sent = value_of(result, "send_error.p99")
        left = f"; requests left {figure(sent)} ms late at p99" if sent is not None else ""
        return [Routine(f"clock: the kernel's, so answers waited for no process{left}")]
    share = "some" if clock["receive"] == BOTH else "the"
    return [f"clock: {share} answers are timed by the process, which may wake up late: {unstamped or 0:,} unstamped"]


def _cpu(result: Result) -> list[str]:
    """Format the use of the cores, if it is known."""
    if value_of(result, "cpu.other_share") is None:
        return []
    parts = [("generator", "generator"), ("server", "server"), ("other work", "other")]
    if value_of(result, "cpu.stolen"):
        parts.append(("other virtual machines", "stolen"))
    used = ", ".join(f"{name} {figure(value_of(result, f'cpu.{key}'))}" for name, key in parts)
    counted = result["details"].get("cpu", {}).get("server_processes")
    served = f"; server: {counted}" if counted else ""
    return [f"cores: {used} of {value_of(result, 'cpu.available') or 0.0:g}{served}"]


def _warm_up(scenario: Scenario) -> list[str]:
    """Format the end of an `auto` warm-up; a reader may want a longer one if it reached its bound."""
    found = scenario.get("warmup")
    if found is None or scenario["warmup_s"] is None:
        return []
    if not found["steady"]:
        return [f"warm-up: {found.get('reason')}; --warmup S sets another"]
    steady = f"steady after {found['steady_from_s']:.2g} s ({found['method']})"
    return [Routine(f"warm-up: {scenario['warmup_s']:.2g} s, {steady}")]


def _hosts(workers: Sequence[Worker]) -> list[str]:
    """Format the workers: their number, their hosts, and the uncertainty of their clocks."""
    if not workers:
        return []
    hosts = Counter(worker["host"] for worker in workers)
    places = ", ".join(f"{count} on {host}" for host, count in hosts.items())
    clocks = max(worker["clock_uncertainty_ms"] for worker in workers)
    return [f"workers: {len(workers)} ({places}), clocks known to {clocks:.2g} ms"]


def _kinds(errors: ErrorDetails) -> str:
    if not errors["by_kind"]:
        return ""
    first = next((messages[0] for messages in errors["messages"].values() if messages), "")
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in errors["by_kind"].items())
    return f" ({kinds}{f'; first: {first}' if first else ''})"


def _distributions(saved: Saved) -> list[Block]:
    """The distributions from the saved histograms."""
    found = {words: saved.histograms[key] for key, words in _HISTOGRAMS.items() if key in saved.histograms}
    found = {words: histogram for words, histogram in found.items() if histogram.count}
    if not found:
        return [Lines(["no distribution: no histograms.json with answered requests beside the result"])]
    levels = limits(saved.of(Result))
    return [by_percentile(found, levels), cumulated(found, levels)]


def limits(result: Result) -> list[Level]:
    """The objectives on a latency, in words and in ms."""
    found = [slo for slo in parse_objectives(result["request"]["objectives"]["slo"]) if slo.timed]
    return [(f"objective {slo.name} {slo.limit:g} ms", slo.limit) for slo in found]


def _over_time(saved: Saved) -> list[Block]:
    result = saved.of(Result)
    levels = limits(result)
    parts: list[Block] = [*windows(result, levels)]
    requests = read_requests(saved.folder) if saved.folder else None
    if requests is None:
        return [*parts, Lines(["no heatmap: no requests.csv beside the result; --request-log keeps one"])]
    seconds = result["scenario"]["measured_s"] or result["scenario"]["duration_s"]
    drawn = heatmap(requests, seconds, levels)
    parts.append(drawn or Lines(["no heatmap: no request of the log succeeded"]))
    return [*parts, *_stages(result)]


def _stages(result: Result) -> list[Block]:
    head = ["stage from s", "for s", "asked for/s", "answered/s", "failed", "p50 ms", "p99 ms"]
    rows = [
        [
            *(f"{stage['start_s']:g}", f"{stage['duration_s']:g}", f"{stage['requested_rate']:,g}"),
            *(figure(value_of(stage, "throughput.requests")), f"{count_of(stage, 'errors.count'):,}"),
            *values(stage, ("latency.p50", "latency.p99")),
        ]
        for stage in result["stages"]
    ]
    return [Table(head, rows, caption="Stages")]


def _mix(result: Result) -> list[Block]:
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


def _workers(result: Result) -> list[Block]:
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


def records(saved: Saved) -> list[dict[str, Any]]:
    """One row: what was asked, the verdict, and every figure."""
    result = saved.of(Result)
    load, verdict = load_of(result), result["verdict"]
    about: Mapping[str, Any] = result
    row = {
        **{key: about[key] for key in ("workload", "engine", "device", "precision", "protocol", "batch_size")},
        "load": describe(load, result["scenario"]),
        "requested_rate_per_s": load.rate if isinstance(load, ConstantRate) else None,
        "concurrency": load.concurrency if isinstance(load, ClosedLoop) else None,
        "duration_s": result["scenario"]["duration_s"],
        "valid": verdict["valid"],
        "failed_constraints": " ".join(failed_constraints(verdict)),
        "objective": verdict["objective"],
        "slo": result["request"]["objectives"]["slo"] or None,
        "bottleneck": result["bottleneck"]["by"],
        "energy_boundary": result["details"]["energy"]["boundary"],
        **columns(result),
        **cold_start_cells(result),
    }
    return [row]


def checks(saved: Saved) -> list[Check]:
    """Every constraint and every objective."""
    result = saved.of(Result)
    return judged(result["verdict"], f"{result['workload']}.{result['engine']}")
