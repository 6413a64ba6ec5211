"""An MLPerf Inference scenario through MLCommons' own LoadGen, with its figures beside ours; accuracy mode scored."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from loadgen.evaluation.evidence import cpu_details, cpu_use, output_details
from loadgen.inputs.sources import golden_of
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.interval_edges import MachineUse
from loadgen.measurement.output_agreement import check
from loadgen.measurement.probe import probe
from loadgen.peers.official_loadgen import (
    LIBRARY,
    LoadGenOutcomes,
    first_of,
    read_accuracy_log,
    read_log,
    run,
    why_invalid,
)
from loadgen.sut.channel import Answer, Payload
from loadgen.sut.target import Target
from loadgen.targets.open import open_target
from servemark.documents.commands.measure import Mlperf, MlperfScenario
from servemark.errors import OptionError, ResultError, parsing
from servemark.figures.evidence import Evidence
from servemark.figures.registry import figures_of
from servemark.figures.value import FigureValue
from servemark.output import note
from servemark.quality.scoring import NO_ANSWER, Journal, Scorer
from servemark.quantities import duration_text, text_of
from servemark.repository.entry import Golden
from servemark.results import directory as results
from servemark.results.constraints import other_load
from servemark.results.objectives import Slo, latency_objective
from servemark.results.schema.details import Constraint, QualityScore, VerdictOfRun
from servemark.results.schema.header import opening
from servemark.results.schema.run import MlperfDetails, MlperfResult, Plan
from servemark.results.verdict import Kind, conclude, constraint
from servemark.runs.quality import Labels, labels_of
from servemark.runs.server import one_server_for
from servemark.workload import Arrays, Sample, Tensor, stack
from servemark.workload.golden_check import agreement_figures, unchecked
from servemark.workload.suites import mlperf_inference

HEADROOM = 2.0
"""Factor from a short probe's rate to the expected rate, because LoadGen refuses runs faster than expected."""
PROBE_CONCURRENCY = 16
PROBE_S = 2.0
OVERLOADED = 0.9
"""A server that completes less than this share of the scheduled queries is beyond its capacity."""
SUBJECTS = {"latency", "requests", "errors", "outputs", "cpu"}
"""Subjects of the figures that this side measures; the rates are LoadGen's."""
BELOW_CAPACITY = 0.8
"""Share of what it completed that is suggested: at the capacity itself the latency has no bound."""


def to_bytes(outputs: Arrays, tensors: Sequence[Tensor]) -> bytes:
    """Write the first row of each output for the log, one .npy after the other."""
    content = io.BytesIO()
    for tensor in tensors:
        np.save(content, outputs[tensor.name][0], allow_pickle=False)
    return content.getvalue()


def from_bytes(content: bytes, tensors: Sequence[Tensor]) -> Sample:
    """Read the outputs again. Raises ValueError, EOFError."""
    file = io.BytesIO(content)
    return {tensor.name: np.load(file, allow_pickle=False) for tensor in tensors}


class LabelledLibrary(Sequence[Payload]):
    """One request for each of the examples' requests, made when LoadGen asks for it. Raises InputDataError."""

    def __init__(self, target: Target, labels: Labels) -> None:
        self._data, self._inputs, self._encode = labels.data, labels.config.workload.inputs, target.encoder()

    def __len__(self) -> int:
        return self._data.first_request(self._data.size)

    @overload
    def __getitem__(self, index: int) -> Payload: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Payload]: ...

    def __getitem__(self, index: int | slice) -> Payload | Sequence[Payload]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        number, part = self._data.place_of(index)
        sample = self._data.example(number).requests[part]
        return Payload(self._encode(stack([sample], self._inputs)), (), (number,))


def logged_by(config: LoadConfig) -> Callable[[Answer], bytes]:
    """Return a function that keeps an answer's outputs for LoadGen's log."""
    tensors = config.workload.outputs

    def logged(answer: Answer) -> bytes:
        try:
            return to_bytes(answer.arrays(tensors), tensors)
        except ValueError:  # it has the sizes of the outputs, and not their values
            return b""

    return logged


def score_log(labels: Labels, logs: Path) -> QualityScore:
    """Score LoadGen's accuracy log; what it has no answer of is wrong. Raises ResultError, InputDataError."""
    answers = read_accuracy_log(logs)
    with Journal(logs) as journal:
        scorer = Scorer(labels.metric, labels.data, journal)
        for number, part, _ in scorer.requests(labels.examples):
            index = labels.data.first_request(number) + part
            if content := answers.get(index):
                with parsing(f"the answer to sample {index} in {logs}", ResultError, fix="run it again"):
                    answer = from_bytes(content, labels.config.workload.outputs)
                scorer.answered(number, part, answer)
            else:
                scorer.failed(number, part, NO_ANSWER)
        return labels.score(journal)


def run_mlperf(config: LoadConfig, options: Mlperf) -> tuple[Path, MlperfResult]:
    """Run a scenario for at least the configuration's duration and write its result; the directory and the result.

    The rate of the Server scenario's arrivals is given; the others' is probed. The bound is the configuration's
    objective, else the workload's. An accuracy run sends the labelled data set once instead, and LoadGen's accuracy
    log is scored. Raises ServemarkError.
    """
    bound, origin = _bound(config)
    if bound is None and options.scenario == MlperfScenario.SERVER:
        raise OptionError(f"{config.workload.name} has no objective of its own", fix="give one, like --slo p99:50")
    labels = labels_of(config, None) if options.accuracy else None
    with one_server_for(config) as served:
        directory, result = _measure(served, options, bound, origin, labels)
    results.write(directory, result)
    return directory, result


def _measure(
    config: LoadConfig, options: Mlperf, bound: Slo | None, origin: str | None, labels: Labels | None
) -> tuple[Path, MlperfResult]:
    """Probe what LoadGen wants to know ahead, let it run, and put its figures beside ours."""
    scenario = MlperfScenario(options.scenario)
    target = open_target(config)
    placement = target.prepare()
    golden = golden_of(config)
    concurrency = PROBE_CONCURRENCY if scenario is MlperfScenario.OFFLINE else 1
    requests = target.payloads(golden)
    latency_ms, rate = probe(
        target, requests, concurrency, least_s=PROBE_S, timeout_s=config.limits.request_timeout_s, access=config.access
    )
    plan = Plan(
        scenario=options.scenario,
        expected_qps=options.target_qps or HEADROOM * rate,
        expected_latency_ms=latency_ms / HEADROOM,
        min_duration_s=config.duration_s,
        min_queries=options.min_queries,
        latency_ms=bound.limit if bound else None,
        percentile=bound.percentile if bound else None,
        bound_from=origin,
        seed=config.seed,
        accuracy=labels is not None,
    )
    machine = MachineUse(target, tuple)
    directory = results.new_directory(config.out, f"{config.model}-mlperf-{scenario.value.lower()}")
    settings = mlperf_inference.settings_of(config.workload.name)
    samples = settings.samples if settings else LIBRARY
    library = first_of(requests, samples) if labels is None else LabelledLibrary(target, labels)
    queries_s = (options.min_queries if labels is None else len(library)) / (options.target_qps or rate)
    about = duration_text(max(queries_s, 0.0 if labels else config.duration_s))
    what = f"at least {config.duration_s:g} s and {options.min_queries} queries"
    if labels is not None:
        what = f"accuracy of {len(library):,} samples"
    note(f"LoadGen: {scenario.value}, {what}: about {about}")
    timeout_s, most = config.limits.request_timeout_s, config.limits.max_in_flight
    keep = logged_by(config) if labels else lambda _: b""
    machine.begin()
    seen = run(target, library, plan, directory, timeout_s=timeout_s, max_in_flight=most, logged=keep)
    machine.finish()
    machine.wait()
    official, figures, details, verdict = _judged(
        config, plan, seen, machine, golden if labels is None else None, directory, labels
    )
    result: MlperfResult = {
        **opening(),
        "kind": "mlperf",
        "request": config.to_dict(),
        "resolved": target.config,
        "scenario": scenario.value,
        "plan": plan,
        "workload": config.workload.name,
        "engine": placement.engine,
        "device": placement.device,
        "provider": placement.provider,
        "precision": config.precision,
        "protocol": target.protocol,
        "partial": seen.interrupted,
        "loadgen": official,
        "figures": figures,
        "details": details,
        "verdict": verdict,
    }
    return directory, result


def _bound(config: LoadConfig) -> tuple[Slo | None, str | None]:
    """Find the bound of the Server scenario, and whose it is."""
    settings = mlperf_inference.settings_of(config.workload.name)
    candidates = {
        "--slo": latency_objective(config.slo),
        mlperf_inference.LABEL: settings and settings.bound,
        f"{config.workload.name}'s own objective": config.workload.slo,
    }
    return next(((bound, origin) for origin, bound in candidates.items() if bound), (None, None))


def _judged(
    config: LoadConfig,
    plan: Plan,
    seen: LoadGenOutcomes,
    machine: MachineUse,
    golden: Golden | None,
    logs: Path,
    labels: Labels | None,
) -> tuple[dict[str, Any], dict[str, FigureValue], MlperfDetails, VerdictOfRun]:
    """LoadGen's figures, this side's, and both verdicts as one."""
    log: dict[str, Any] = {}
    lost = "interrupted" if seen.interrupted else ""
    if not lost:
        try:
            log = read_log(logs)
        except ResultError as error:
            lost = error.what
    official = log.get("result_validity")
    workload, limits = config.workload, config.workload.agreement.at(config.precision)
    why = f"no golden outputs: `{config.entry.export_command()}`"
    if labels is not None:
        why = "an accuracy run is scored by its labels"
    agreement, mismatch = (
        agreement_figures(check(seen.sampled, golden, workload.outputs, limits), workload, config.precision)
        if golden
        else (unchecked(why), None)
    )
    errors = seen.errors.total()
    # LoadGen judges the performance of a performance run; of an accuracy run it keeps the answers.
    ended = official == "VALID" if labels is None else not seen.interrupted
    beside = [other_load(machine.use)] if machine.use and labels is None else []
    busy = any(not each["ok"] for each in beside)
    constraints = [
        *beside,
        loadgen_constraint(plan, log, lost, valid=ended, busy=busy),
        constraint(Kind.ERROR_RATE, not errors, float(errors), 0.0, "failed requests", "see the errors by kind"),
    ]
    if golden:
        remedy = mismatch or "no golden request was answered: raise --min-duration"
        right = mismatch is None and bool(agreement["checked"])
        constraints.append(constraint(Kind.OUTPUT_AGREEMENT, right, agreement["checked"], 1, "outputs checked", remedy))
    by_loadgen = {
        "validity": official,
        **{key.removeprefix("result_"): value for key, value in log.items() if key.startswith("result_")},
        "early_stopping": {key: value for key, value in log.items() if key.startswith("early_stopping")},
        "version": log.get("loadgen_version"),
    }
    evidence = Evidence(
        latency=seen.latency,
        scheduled=seen.latency.count + errors,
        errors=seen.errors,
        agreement=agreement,
        cpu=cpu_use(machine),
    )
    figures = {tag: each for tag, each in figures_of(evidence).items() if tag.partition(".")[0] in SUBJECTS}
    details: MlperfDetails = {
        "errors": {
            "by_kind": dict(seen.errors),
            "messages": {kind: [config.access.redact(text)] for kind, text in seen.messages.items()},
        },
        "outputs": output_details(agreement),
        "cpu": cpu_details(evidence),
    }
    if labels is not None and not seen.interrupted:
        details["quality"] = score_log(labels, logs)
    skipped = {} if machine.use or labels else {str(Kind.OTHER_LOAD): machine.reason}
    return by_loadgen, figures, details, conclude(constraints, skipped=skipped)


def loadgen_constraint(plan: Plan, log: Mapping[str, Any], ended: str, *, valid: bool, busy: bool) -> Constraint:
    """Take LoadGen's verdict, with the bound of the Server scenario and the latency that it is compared with.

    LoadGen knows nothing of the machine and advises a lower rate. Beside other work that would hide the cause.
    """
    value = limit = None
    unit, remedy = "", ""
    if plan["scenario"] == MlperfScenario.SERVER and plan["latency_ms"] is not None and not plan.get("accuracy"):
        ns = log.get(f"result_{plan['percentile']:.2f}_percentile_latency_ns")
        value, limit, unit = ns and ns / 1e6, plan["latency_ms"], f"ms at p{plan['percentile']:g}"
    if not valid:
        remedy = ended or why_invalid(log) or "see mlperf_log_summary.txt"
        if limit is not None and not ended:
            remedy = (
                f"the bound of {limit:g} {unit} is {plan.get('bound_from')}: lower --target-qps{_to_try(log)}, or give "
                f"a wider bound by --slo; LoadGen: {remedy}"
            )
        # Beyond the capacity it is the rate, whatever else the machine does.
        if busy and not ended and not _to_try(log):
            remedy = "other work may be the reason: repeat on a quiet machine before you change the load"
    return constraint(Kind.LOADGEN, valid, value, limit, unit, remedy)


def _to_try(log: Mapping[str, Any]) -> str:
    """Return the rate to try where the server completed far fewer queries than were scheduled; else nothing."""
    scheduled = log.get("result_scheduled_samples_per_sec") or 0.0
    completed = log.get("result_completed_samples_per_sec") or 0.0
    if not 0 < completed < OVERLOADED * scheduled:
        return ""
    rate = float(f"{BELOW_CAPACITY * completed:.2g}")
    return f" to {text_of(rate)} ({completed:,.0f} of {scheduled:,.0f}/s were completed)"
