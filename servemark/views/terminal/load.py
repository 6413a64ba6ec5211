"""A result on the terminal: one compact table, then the verdict block."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from servemark.output import EVERYTHING, says
from servemark.results.constraint_kinds import Kind
from servemark.results.labels import title
from servemark.results.objectives import MET
from servemark.results.schema.header import figure_of, reason_of
from servemark.results.schema.run import (
    Constraint,
    CpuFigures,
    Errors,
    JudgedObjective,
    Metrics,
    ModelFigures,
    Result,
    Scenario,
    Shown,
    Worker,
)
from servemark.results.verdict import failed_constraints
from servemark.stats.histogram import Percentiles
from servemark.views.headline import answer
from servemark.views.quality import score_words
from servemark.views.terminal.trace import worst_seconds
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, figure, only_agreement, rate

ALIKE = 0.999999
"""Outputs of such a cosine are equal but for rounding."""
COLUMNS = ("mean", "p50", "p90", "p95", "p99", "p99_9", "max")


def render(result: Result, console: Console) -> None:
    """Print a load result: the answer first. With `--verbose` nothing is left out because it is as it should be."""
    everything = says(EVERYTHING)
    first = Text(answer(result), style="bold")
    for part in (first, heading(result), _latencies(result), *facts(result, everything), *_verdict(result, everything)):
        console.print(part, soft_wrap=isinstance(part, Text))


def heading(result: Result) -> Text:
    """Name the workload, the server and the load of a run."""
    scenario = result["scenario"]
    seconds = f"{scenario['duration_s']:g} s"
    if (measured_s := scenario["measured_s"] or 0.0) > scenario["duration_s"]:
        seconds += f" prolonged to {measured_s:.3g} s"
    if scenario["warmup_s"] and "warmup" in scenario:
        seconds += f" after {scenario['warmup_s']:.2g} s of warm-up"
    known: list[str | None] = [result["engine"], result["device"], result["precision"], result["protocol"]]
    if "json" in {result["resolved"].get(f"{which}_tensor_format") for which in ("input", "output")}:
        known.append("JSON tensors")
    where = ", ".join(str(each) for each in known if each)
    return Text.assemble(
        (result["workload"], "bold"),
        f" on {where}  |  {title(scenario)}, batch {result['batch_size']}, {seconds}",
    )


def _latencies(result: Result) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("ms", style="dim")
    for column in COLUMNS:
        table.add_column(column.replace("_", "."), justify="right")
    metrics = result["metrics"]
    rows = [("latency", metrics["latency_ms"])]
    if result["scenario"]["mode"] != "closed":
        rows += [("service time", metrics["service_time_ms"]), ("schedule delay", metrics["schedule_delay_ms"])]
    if answers := metrics.get("answers"):
        rows += [("first answer", answers["first_ms"]), ("between answers", answers["between_ms"])]
    if sequences := metrics.get("sequences"):
        rows.append(("sequence", sequences["duration_ms"]))
    for name, summary in rows:
        table.add_row(name, *(figure(figure_of(summary, column)) for column in COLUMNS))
    return table


def facts(result: Result, everything: bool) -> list[Text]:
    """List the facts besides the latencies, one a line."""
    metrics = result["metrics"]
    throughput, errors, server = metrics["throughput"], metrics["errors"], metrics["server"]
    lines = [f"{metrics['latency_ms']['count']:,} succeeded, {errors['count']:,} failed{_kinds(errors)}"]
    if everything or result["batch_size"] > 1:
        inferences = f"{rate(throughput['inferences_per_s'])} inferences/s"
        lines[0] = f"{rate(throughput['requests_per_s'])} requests/s, {inferences}; {lines[0]}"
    if answers := metrics.get("answers"):
        lines.append(f"answers: {rate(answers['answers_per_s'])}/s, {figure(answers['per_request'])} to a request")
    if sequences := metrics.get("sequences"):
        lines.append(
            f"sequences: {rate(sequences['sequences_per_s'])}/s of {sequences['length']} requests, at most "
            f"{sequences['in_flight']} in flight; {sequences['completed']:,} completed, {sequences['broken']:,} broken"
        )
    if worst := worst_seconds(result):
        lines.append(worst)
    lines += _tail(metrics)
    if server["queue_ms"] is not None:
        lines.append(_of_model("server", server))
    lines += [
        f"{_of_model(f'  {name}', part)}; called {figure(part['calls'])} times"
        for name, part in server.get("composing", {}).items()
    ]
    if warm_up := _warm_up(result["scenario"], everything):
        lines.append(warm_up)
    if cpu := _cpu(metrics.get("cpu")):
        lines.append(cpu)
    if result.get("workers"):
        lines.append(_workers(result["workers"]))
    limited = result["bottleneck"]
    by, evidence = (limited["by"], limited["evidence"]) if limited["by"] else limited["evidence"].split(": ", 1)
    lines.append(f"limited by: {by} ({evidence})")
    lines.append(_outputs(result, everything))
    if (scored := result["metrics"]["correctness"]["quality"].get("score")) is not None:
        lines.append(f"quality: {score_words(scored)}")
    energy = metrics["energy"]
    if energy["joules_per_inference"] is not None:
        lines.append(f"energy: {energy['joules_per_inference']:.3g} J/inference ({energy['boundary']})")
    elif everything:
        lines.append(f"energy: not known ({reason_of(energy, 'joules_per_inference')})")
    return [Text(line) for line in lines]


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


def _outputs(result: Result, everything: bool) -> str:
    """Format the agreement of the answers with the golden ones; short if they agree."""
    agreement = result["metrics"]["correctness"]["output_agreement"]
    if not agreement["checked"]:
        return f"outputs: not checked ({reason_of(agreement, 'max_abs_error')})"
    cosine = agreement["cosine_min"]
    # The first choice and the cosine of an output that is too large throughout are right.
    alike = agreement["top1_agreement"] == 1 and (cosine is None or cosine >= ALIKE)
    if alike and Kind.OUTPUT_AGREEMENT not in failed_constraints(result["verdict"]) and not everything:
        return f"outputs: {agreement['checked']} golden requests agree"
    note = f"; {RANDOM_WEIGHTS}" if only_agreement(result, agreement) else ""
    return f"outputs: {agreement['checked']} golden requests checked, {agreement_words(agreement)}{note}"


def _cpu(cpu: CpuFigures | None) -> str | None:
    """Format the use of the cores, if it is known."""
    if cpu is None or cpu["other_cpu_share"] is None:
        return None
    parts = [("generator", "generator_cores"), ("server", "server_cores"), ("other work", "other_cores")]
    if cpu["stolen_cores"]:
        parts.append(("other virtual machines", "stolen_cores"))
    used = ", ".join(f"{name} {figure(figure_of(cpu, key))}" for name, key in parts)
    return f"cores: {used} of {cpu['cores']:g}"


def _warm_up(scenario: Scenario, everything: bool) -> str | None:
    """Format the end of an `auto` warm-up; always if it reached its bound, since the reader may want a longer one."""
    found = scenario.get("warmup")
    if found is None or scenario["warmup_s"] is None or (found["steady"] and not everything):
        return None
    if found["steady"]:
        return f"warm-up: {scenario['warmup_s']:.2g} s, steady after {found['steady_from_s']:.2g} s ({found['method']})"
    return f"warm-up: {found.get('reason')}; --warmup S sets another"


def _workers(workers: Sequence[Worker]) -> str:
    """Format the workers: their number, their hosts, and the uncertainty of their clocks."""
    hosts = Counter(worker["host"] for worker in workers)
    places = ", ".join(f"{count} on {host}" for host, count in hosts.items())
    clocks = max(worker["clock_uncertainty_ms"] for worker in workers)
    return f"workers: {len(workers)} ({places}), clocks known to {clocks:.2g} ms"


def _verdict(result: Result, everything: bool) -> list[Text]:
    verdict = result["verdict"]
    word, style = ("VALID", "bold green") if verdict["valid"] else ("INVALID", "bold red")
    lines = [Text.assemble("Result is : ", (word, style))]
    if verdict["objective"]:
        lines[0].append("; objective ").append(verdict["objective"].upper(), "bold")
    # A mix has its workloads' names before those of the constraints.
    width = max(20, *(len(constraint["name"]) for constraint in verdict["constraints"]))
    holding = [constraint for constraint in verdict["constraints"] if constraint["ok"]]
    for constraint in verdict["constraints"]:
        ok = constraint["ok"]
        if ok and not everything:
            continue
        line = Text.assemble(f"  {constraint['name']:<{width}} ", ("Yes", "green") if ok else ("No ", "bold red"))
        shown, limit = of_constraint(constraint)
        if limit != "-":
            line.append(f"  {shown} (limit {limit} {constraint['unit']})")
        lines.append(line)
        if not ok:
            lines.append(Text(f"  {'':<{width}} -> {constraint['remedy']}", style="yellow"))
    if not everything:
        lines.append(Text(f"  {len(holding)} of {len(verdict['constraints'])} constraints hold (-v shows all)"))
    for objective in verdict["objectives"]:
        lines += _objective(objective, width)
    lines += [Text(f"  {name:<{width}} -    not judged: {why}") for name, why in verdict["skipped"].items()]
    return lines


def of_constraint(constraint: Constraint) -> tuple[str, str]:
    """A constraint's value and limit; dashes where it has none."""
    value, limit = constraint["value"], constraint["limit"]
    if value is None or limit is None:
        return "-", "-"
    # 1.104 beside a limit of 1.10 must not look like it.
    alike = not constraint["ok"] and figure(value) == figure(limit)
    return f"{value:.6g}" if alike else figure(value), figure(limit)


def _objective(judged: JudgedObjective, width: int) -> list[Text]:
    """One objective: its answer, and how sure it is."""
    met = judged["status"] == MET
    least = "at least" if judged["figure"] == "throughput" else "limit"
    lines = [
        Text.assemble(
            f"  {judged['objective']:<{width}} ",
            (judged["status"].upper(), "green" if met else "bold red"),
            f"  {figure(judged['value'])} ({least} {figure(judged['limit'])} {judged['unit']})",
        )
    ]
    if not met:
        lines.append(Text(f"  {'':<{width}} -> {judged['remedy']}", style="yellow"))
    if judged["shown"] is not None:
        lines.append(Text(f"  {'':<{width}} {confidence(judged['shown'])}"))
    return lines


def confidence(shown: Shown) -> str:
    """Say whether the objective is shown and, if that is not known, why and how long a run would tell."""
    text = f"kept with {shown['confidence']:.0%} confidence: "
    over = f"{shown['over']:,} of {shown['requests']:,} requests over or failed"
    if shown["holds"] is not None:
        return f"{text}{'yes' if shown['holds'] else 'not shown'} ({over})"
    longer = f"; measure {times:.2g} times as long" if (times := shown.get("measure_times", 1.0)) > 1 else ""
    return f"{text}not known ({over}; {shown.get('holds_reason')}{longer})"


def _kinds(errors: Errors) -> str:
    if not errors["by_kind"]:
        return ""
    first = next((messages[0] for messages in errors["messages"].values() if messages), "")
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in errors["by_kind"].items())
    return f" ({kinds}{f'; first: {first}' if first else ''})"
