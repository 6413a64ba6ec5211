"""A run: one load, a mix, or the run that stands for a search of the highest rate."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from servemark.documents.load import ClosedLoop, ConstantRate
from servemark.documents.saved_load import describe, load_of, title_of
from servemark.library import read_requests
from servemark.quantities import figure, interval_words
from servemark.results.constraint_kinds import Kind
from servemark.results.objectives import parse_objectives
from servemark.results.saved import Saved
from servemark.results.schema.header import figure_of, reason_of
from servemark.results.schema.load import Scenario
from servemark.results.schema.metrics import BOTH, KERNEL, PROCESS, Errors, Metrics, ModelFigures
from servemark.results.schema.run import Result, Worker
from servemark.results.verdict import failed_constraints, said
from servemark.stats.histogram import Percentiles
from servemark.views.blocks import Article, Block, Check, Lines, Routine, Section, Table
from servemark.views.headline import answer
from servemark.views.kinds.quality import score_words
from servemark.views.plots.circumstances import configuration, environment, made
from servemark.views.plots.connections import cancelled, parts, servers, sizes
from servemark.views.plots.distribution import Level, by_percentile, cumulated
from servemark.views.plots.explanation import slow_requests
from servemark.views.plots.machine import machine
from servemark.views.plots.machine_series import OWN
from servemark.views.plots.max_rate import search
from servemark.views.plots.over_time import heatmap, windows
from servemark.views.plots.server import batches, breakdown
from servemark.views.plots.transients import cold_start, cold_start_cells, commands
from servemark.views.slow_seconds import worst_seconds
from servemark.views.verdict import badges, judged, meaning, verdict_of
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, cells, listed, low_and_high, only_agreement
from servemark.views.wording import answer as found_rate

ALIKE = 0.999999
"""Outputs of such a cosine are equal but for rounding."""
COLUMNS = ("mean", "p50", "p90", "p95", "p99", "p99_9", "max")
IN_CSV = ("mean", "stdev", "min", "p50", "p90", "p95", "p99", "p99_9", "max")
_HISTOGRAMS = {"latency_us": "latency", "service_time_us": "service time"}


def article(saved: Saved) -> Article:
    """The answer, what was measured, the verdict, and the plots."""
    result = saved.of(Result)
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
            Section("Latency", [_latencies(result), Lines(facts(saved))]),
            Section("Cold start", cold_start(result)),
            Section("Commands", commands(result)),
            Section("Servers", servers(result)),
            Section("Verdict", [verdict_of(result["verdict"])]),
            Section("Workloads of the mix", _mix(result)),
            Section("Distribution of latencies", lambda: _distributions(saved)),
            Section("Over time", lambda: _over_time(saved)),
            Section("Server", lambda: [*breakdown(result["metrics"]), *batches(result["metrics"])]),
            Section("Machine and energy", lambda: machine(saved)),
            Section("Workers", lambda: _workers(result)),
            Section("Configuration and environment", lambda: [*configuration(result), *environment(result)]),
        ],
        badges=badges(result["verdict"], partial=result["partial"]),
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
    metrics = result["metrics"]
    rows: list[tuple[str, Any]] = [("latency", metrics["latency_ms"])]
    if not isinstance(load_of(result), ClosedLoop):
        rows += [("service time", metrics["service_time_ms"]), ("schedule delay", metrics["schedule_delay_ms"])]
    if answers := metrics.get("answers"):
        rows += [("first answer", answers["first_ms"]), ("between answers", answers["between_ms"])]
    rows += parts(result)
    if sequences := metrics.get("sequences"):
        rows.append(("sequence", sequences["duration_ms"]))
    head = ["ms", *(name.replace("_", ".") for name in COLUMNS), "95 % interval of p50", "95 % interval of p99"]
    intervals = [[interval_words(summary.get("ci95", {}).get(key)) for key in ("p50", "p99")] for _, summary in rows]
    shown = [[name, *cells(group, COLUMNS), *ends] for (name, group), ends in zip(rows, intervals, strict=True)]
    return Table(head, shown, narrow=1 + len(COLUMNS))


def facts(saved: Saved) -> list[str]:
    """List the facts besides the latencies, one a line."""
    result = saved.of(Result)
    metrics = result["metrics"]
    throughput, errors, server = metrics["throughput"], metrics["errors"], metrics["server"]
    counts = f"{metrics['latency_ms']['count']:,} succeeded, {errors['count']:,} failed{_kinds(errors)}"
    inferences = f"{figure(throughput['inferences_per_s'])} inferences/s"
    whole = f"{figure(throughput['requests_per_s'])} requests/s, {inferences}; {counts}"
    lines = [whole if result["batch_size"] > 1 else Routine(whole, counts)]
    if answers := metrics.get("answers"):
        lines.append(f"answers: {figure(answers['answers_per_s'])}/s, {figure(answers['per_request'])} to a request")
    if sequences := metrics.get("sequences"):
        lines.append(
            f"sequences: {figure(sequences['sequences_per_s'])}/s of {sequences['length']} requests, at most "
            f"{sequences['in_flight']} in flight; {sequences['completed']:,} completed, {sequences['broken']:,} broken"
        )
    lines += [*sizes(result), *cancelled(result)]
    tls = result["resolved"].get("tls")
    if tls and tls.get("unverified"):
        lines.append("TLS: the server's certificate was not verified (--tls-insecure), so anybody may have answered")
    lines += [*_scraped(saved), *worst_seconds(saved), *_tail(metrics)]
    if server["queue_ms"] is not None:
        lines.append(_of_model("server", server))
    lines += [
        f"{_of_model(f'  {name}', part)}; called {figure(part['calls'])} times"
        for name, part in server.get("composing", {}).items()
    ]
    lines += [*_warm_up(result["scenario"]), *_clock(metrics), *_cpu(metrics), *_hosts(result.get("workers", []))]
    limited = result["bottleneck"]
    by, evidence = (limited["by"], limited["evidence"]) if limited["by"] else limited["evidence"].split(": ", 1)
    lines += [f"limited by: {by} ({evidence})", _outputs(result)]
    if (scored := metrics["correctness"]["quality"].get("score")) is not None:
        lines.append(f"quality: {score_words(scored)}")
    energy = metrics["energy"]
    if energy["joules_per_inference"] is not None:
        ends = energy.get("joules_per_inference_ci95")
        interval = f"95 % interval {interval_words(ends)}; " if ends else ""
        lines.append(f"energy: {energy['joules_per_inference']:.3g} J/inference ({interval}{energy['boundary']})")
    else:
        lines.append(Routine(f"energy: not known ({reason_of(energy, 'joules_per_inference')})"))
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


def _tail(metrics: Metrics) -> list[str]:
    """List the percentiles of the answered requests where some failed, and the bounds that are known."""
    lines = []
    if metrics["errors"]["count"]:
        lines.append("of the answered requests alone: " + _percentiles(metrics["answered_latency_ms"]))
    bounds = metrics["tail_bounds"]["bounds_ms"]
    if any(isinstance(value, float) for value in bounds.values()):
        lines.append(f"with {metrics['tail_bounds']['confidence']:.0%} confidence: {_percentiles(bounds, '<= ')}")
    return lines


def _percentiles(found: Percentiles, sign: str = "") -> str:
    """Format the percentiles that are known: "p50 1.20, p99 3.40 ms"."""
    known = {key.replace("_", "."): value for key, value in found.items() if isinstance(value, float)}
    return ", ".join(f"{name} {sign}{figure(value)}" for name, value in known.items()) + " ms" if known else "not known"


def _of_model(name: str, found: ModelFigures) -> str:
    """Format the parts of a request's time in the server."""
    if found["queue_ms"] is None:
        return f"{name}: not known ({reason_of(found, 'queue_ms')})"
    return (
        f"{name}: queue {figure(found['queue_ms'])} + input {figure(found['compute_input_ms'])} + infer "
        f"{figure(found['compute_infer_ms'])} + output {figure(found['compute_output_ms'])} ms; "
        f"mean executed batch {figure(found['batch_size_mean'])}"
    )


def _outputs(result: Result) -> str:
    """Format the agreement of the answers with the golden ones; short if they agree."""
    agreement = result["metrics"]["correctness"]["output_agreement"]
    if not agreement["checked"]:
        return f"outputs: not checked ({reason_of(agreement, 'max_abs_error')})"
    cosine = agreement["cosine_min"]
    note = f"; {RANDOM_WEIGHTS}" if only_agreement(result, agreement) else ""
    whole = f"outputs: {agreement['checked']} answers checked, {agreement_words(agreement)}{note}"
    # The first choice and the cosine of an output that is too large throughout are right.
    alike = agreement["top1_agreement"] == 1 and (cosine is None or cosine >= ALIKE)
    if alike and Kind.OUTPUT_AGREEMENT not in failed_constraints(result["verdict"]):
        return Routine(whole, f"outputs: {agreement['checked']} answers checked, all agree")
    return whole


def _clock(metrics: Metrics) -> list[str]:
    """Say which clock told when answers came; short where it was the kernel's."""
    clock = metrics.get("clock")
    if clock is None or (clock["receive"] == PROCESS and clock["unstamped"] is None):
        return []
    sent = clock["send_error_ms"]
    if clock["receive"] == KERNEL:
        left = f"; requests left {figure(sent['p99'])} ms late at p99" if sent["p99"] is not None else ""
        return [Routine(f"clock: the kernel's, so answers waited for no process{left}")]
    share = "some" if clock["receive"] == BOTH else "the"
    return [
        f"clock: {share} answers are timed by the process, which may wake up late: {clock['unstamped']:,} unstamped"
    ]


def _cpu(metrics: Metrics) -> list[str]:
    """Format the use of the cores, if it is known."""
    cpu = metrics.get("cpu")
    if cpu is None or cpu["other_cpu_share"] is None:
        return []
    parts = [("generator", "generator_cores"), ("server", "server_cores"), ("other work", "other_cores")]
    if cpu["stolen_cores"]:
        parts.append(("other virtual machines", "stolen_cores"))
    used = ", ".join(f"{name} {figure(figure_of(cpu, key))}" for name, key in parts)
    counted = f"; server: {cpu['server_processes']}" if "server_processes" in cpu else ""
    return [f"cores: {used} of {cpu['cores']:g}{counted}"]


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


def _kinds(errors: Errors) -> str:
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
            *(figure(stage["requests_per_s"]), f"{stage['errors']:,}", *cells(stage["latency_ms"], ("p50", "p99"))),
        ]
        for stage in result["stages"]
    ]
    return [Table(head, rows, caption="Stages")]


def _mix(result: Result) -> list[Block]:
    head = ["workload", "share", "requests/s", "p50 ms", "p90 ms", "p99 ms", "failed", "verdict"]
    rows = [
        [
            *(part["workload"], f"{part['share']:.1%}", figure(part["metrics"]["throughput"]["requests_per_s"])),
            *cells(part["metrics"]["latency_ms"], ("p50", "p90", "p99")),
            *(f"{part['metrics']['errors']['count']:,}", said(part["verdict"])),
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
    """One row."""
    result, metrics = saved.document, saved.document["metrics"]
    load, verdict, energy = load_of(saved.of(Result)), result["verdict"], metrics["energy"]
    found = result.get("max_rate")
    row = {
        **{key: result[key] for key in ("workload", "engine", "device", "precision", "protocol", "batch_size")},
        "load": describe(load, result["scenario"]),
        "requested_rate_per_s": load.rate if isinstance(load, ConstantRate) else None,
        "concurrency": load.concurrency if isinstance(load, ClosedLoop) else None,
        "duration_s": result["scenario"]["duration_s"],
        "valid": verdict["valid"],
        "failed_constraints": " ".join(failed_constraints(verdict)),
        "objective": verdict["objective"],
        "slo": result["request"]["objectives"]["slo"] or None,
        "bottleneck": result["bottleneck"]["by"],
        "requests": metrics["latency_ms"]["count"],
        "failed_requests": metrics["errors"]["count"],
        "failed_share": metrics["errors"]["share"],
        "scheduled_per_s": metrics["throughput"]["scheduled_rate"],
        **{key: metrics["throughput"][key] for key in ("requests_per_s", "inferences_per_s")},
        "goodput_per_s": metrics["throughput"]["goodput"],
        **{f"latency_{key}_ms": metrics["latency_ms"][key] for key in IN_CSV},
        **{f"service_time_{key}_ms": metrics["service_time_ms"][key] for key in ("mean", "p50", "p99")},
        **{f"schedule_delay_{key}_ms": metrics["schedule_delay_ms"][key] for key in ("mean", "p50", "p99")},
        **{f"server_{key}": metrics["server"][key] for key in ("queue_ms", "compute_infer_ms", "batch_size_mean")},
        "client_cpu_utilization": metrics["client"]["cpu_utilization"],
        **{f"energy_{key}": energy[key] for key in ("joules_per_inference", "average_w", "boundary")},
        **low_and_high("energy_joules_per_inference", energy.get("joules_per_inference_ci95")),
        "max_rate_per_s": found and found["rate"],
        **cold_start_cells(saved.of(Result)),
    }
    return [row]


def checks(saved: Saved) -> list[Check]:
    """Every constraint and every objective."""
    result = saved.of(Result)
    return judged(result["verdict"], f"{result['workload']}.{result['engine']}")
