"""A run: one load, a mix, the run that stands for a search of the highest rate, or one by MLPerf's LoadGen."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from servemark.compare.quality import agreement_of
from servemark.documents.load import ClosedLoop, ConstantRate
from servemark.documents.saved_load import describe, load_of, title_of
from servemark.figures.registry import count_of, distributions, interval_of, value_of, why_unknown
from servemark.quantities import figure, interval_words, text_of
from servemark.results.saved import Saved
from servemark.results.schema.details import BOTH, KERNEL, PROCESS, ErrorDetails
from servemark.results.schema.run import MlperfResult, Result, Scenario, Worker
from servemark.results.verdict import Kind, failed_constraints, verdict_words
from servemark.stats.percentiles import BOUND_CONFIDENCE, PERCENTILES
from servemark.views.blocks import Article, Check, Facts, Lines, Routine, Section, Table
from servemark.views.kinds.quality import score_words
from servemark.views.kinds.run import sections
from servemark.views.kinds.run.explanation import explained
from servemark.views.kinds.run.latency import distributed, over_time, worst_seconds
from servemark.views.kinds.run.machine import OWN, beside_the_run
from servemark.views.shape import configuration, shaped
from servemark.views.verdict import answer, judged
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, columns, listed, only_agreement, served, values

ALIKE = 0.999999
"""Outputs of such a cosine are equal but for rounding."""
COLUMNS = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
_ROWS = ("latency", "service_time", "schedule_delay", "first_answer", "between_answers", "connect", "tls", "first_byte")
"""Distributions that a reader sees first; any other stands below."""
_RATES = ("qps_without_loadgen_overhead", "completed_samples_per_sec", "samples_per_second")
_PERCENTILES = {"p50": "50.00", "p90": "90.00", "p95": "95.00", "p99": "99.00", "p99.9": "99.90"}


def article(saved: Saved) -> Article:
    """The answer, what was measured, the verdict, and behind it the plots of a load or LoadGen's own figures."""
    return _by_loadgen(saved.of(MlperfResult)) if saved.kind == "mlperf" else _load(saved)


def _load(saved: Saved) -> Article:
    told = sections.Told(saved.of(Result)["figures"])
    result: Result = {**saved.of(Result), "figures": told}
    found, slow = result.get("max_rate"), result.get("explanation")
    stands = "The run that stands for it" if found and found["rate"] is not None else "The run at the lowest rate"
    return shaped(
        result,
        about=heading(result),
        answer=sections.found_rate(found, result["request"]["objectives"]["slo"]) if found else answer(result),
        sections=[
            Section("Why it is slow", explained(slow) if slow else [], titled=True),
            Section("Search for the highest rate", sections.search(result) if found else []),
            Section(stands, [Lines([answer(result)])] if found else [], titled=True),
            Section("Latency", [_latencies(result), Lines([*facts(saved, result), *told.others()])]),
            Section("Cold start", sections.cold_start(result)),
            Section("Commands", sections.commands(result)),
            Section("Servers", sections.servers(result)),
        ],
        behind=[
            Section("Workloads of the mix", sections.mix(result)),
            Section("Distribution of latencies", lambda: distributed(saved)),
            Section("Over time", lambda: over_time(saved)),
            Section("Server", lambda: [*sections.breakdown(result), *sections.batches(result)]),
            Section("Machine and energy", lambda: beside_the_run(saved)),
            Section("Workers", lambda: sections.workers(result)),
            Section("Figures", lambda: [sections.table_of(result["figures"])]),
        ],
        verdict=result["verdict"],
        last="Configuration and environment",
        before_environment=configuration(result),
    )


def _by_loadgen(result: MlperfResult) -> Article:
    official = result["loadgen"]
    rates = [f"{key.replace('_', ' ')} {figure(official[key])}" for key in _RATES if key in official]
    answer = [f"MLPerf {result['scenario']}", *rates, verdict_words(failed_constraints(result["verdict"]), None)]
    scored = result["details"].get("quality")
    return shaped(
        result,
        about=f"{served(result)}  |  MLPerf {result['scenario']}, LoadGen {official['version']}",
        answer=", ".join(answer),
        explained=_bound(result),
        sections=[
            Section("Latency", [_latencies_of_both(result), Lines(_counts(result))]),
            Section("Quality", [Lines([f"quality: {score_words(scored)}"])] if scored else []),
        ],
        behind=[
            Section("LoadGen's own figures", lambda: [_all(official, "All of its log", folded=True)]),
            Section("What was asked for", lambda: [_all(result["plan"], "")]),
        ],
        verdict=result["verdict"],
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
    lines += [*sections.sizes(result), *sections.cancelled(result)]
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


def _bound(result: MlperfResult) -> list[str]:
    """Name the bound on the latency, and who set it."""
    plan = result["plan"]
    if plan.get("latency_ms") is None or result["scenario"] != "Server":
        return []
    bound = f"p{plan['percentile']:g} within {plan['latency_ms']:g} ms, {plan.get('bound_from')}"
    return [f"bound: {bound}; asked {plan['expected_qps']:,g}/s"]


def _latencies_of_both(result: MlperfResult) -> Table:
    """The percentiles as LoadGen and servemark saw them; of an accuracy run LoadGen keeps no times."""
    known = [result["loadgen"].get(f"{name}_percentile_latency_ns") for name in _PERCENTILES.values()]
    official = ["LoadGen", *(figure(ns and ns / 1e6) for ns in known)]
    ours = ["servemark", *values(result, [f"latency.{key}" for key in _PERCENTILES])]
    return Table(["ms", *_PERCENTILES], [*([official] if any(known) else []), ours])


def _counts(result: MlperfResult) -> list[str]:
    errors = result["details"]["errors"]
    answered, failed = count_of(result, "requests.answered"), count_of(result, "errors.count")
    seen = [f"{answered:,} succeeded, {failed:,} failed"]
    return [*seen, *(f"{kind}: {' | '.join(errors['messages'].get(kind, []))}" for kind in errors["by_kind"])]


def _all(found: Any, caption: str, *, folded: bool = False) -> Facts:
    rows = [
        (key.replace("_", " "), f"{each:,g}" if isinstance(each, float) else str(each)) for key, each in found.items()
    ]
    return Facts(rows, caption, folded)


def records(saved: Saved) -> list[dict[str, Any]]:
    """One row: what was asked, the verdict, and every figure."""
    result, verdict = saved.document, saved.document["verdict"]
    row = {key: result[key] for key in ("workload", "engine", "device", "precision", "protocol")}
    own: dict[str, Any] = {}
    if saved.kind == "mlperf":
        row["load"] = f"MLPerf {result['scenario']}"
        last = {f"loadgen_{key}": result["loadgen"].get(key) for key in ("validity", "version")}
    else:
        load = load_of(saved.of(Result))
        row |= {
            "batch_size": result["batch_size"],
            "load": describe(load, result["scenario"]),
            "requested_rate_per_s": load.rate if isinstance(load, ConstantRate) else None,
            "concurrency": load.concurrency if isinstance(load, ClosedLoop) else None,
            "duration_s": result["scenario"]["duration_s"],
        }
        own = {
            "slo": result["request"]["objectives"]["slo"] or None,
            "bottleneck": result["bottleneck"]["by"],
            "energy_boundary": result["details"]["energy"]["boundary"],
        }
        last = sections.cold_start_cells(saved.of(Result))
    row |= {
        "valid": verdict["valid"],
        "failed_constraints": " ".join(failed_constraints(verdict)),
        "objective": verdict["objective"],
    }
    return [{**row, **own, **columns(result), **last}]


def checks(saved: Saved) -> list[Check]:
    """Every constraint and every objective."""
    result = saved.document
    return judged(result["verdict"], f"{result['workload']}.{result['engine']}")
