"""`servemark mlperf`: an MLPerf Inference scenario through MLCommons' own LoadGen."""

import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.load.load_config import LoadConfig
from loadgen.measurement.output_agreement import agreement_figures, unchecked
from loadgen.measurement.probe import probe
from loadgen.mlperf.official_loadgen import LoadGenOutcomes, read_log, run
from loadgen.mlperf.plan import MlperfPlan, MlperfScenario, require_loadgen
from loadgen.sut.target import Target
from loadgen.targets.open import open_target
from servemark import interrupts
from servemark.cli._load_flags import ARRIVALS, LoadFlags, takes_load
from servemark.cli._options import (
    DEFAULT_ENGINE,
    DEFAULT_PRECISION,
    Device,
    Engine,
    EngineOption,
    Instances,
    Json,
    Precision,
)
from servemark.errors import OptionError
from servemark.machine.environment import collect
from servemark.output import note, stdout
from servemark.report.terminal.mlperf import render_mlperf
from servemark.repository.entry import Golden
from servemark.repository.model_config import Settings
from servemark.results import directory as results
from servemark.results.verdict import Constraint, Verdict
from servemark.runs.locust_process import check, server_for

HEADROOM = 2.0
"""What is expected lies this far beyond what a short probe saw: LoadGen refuses a run that was faster than expected."""
PROBE_CONCURRENCY = 16
PROBE_S = 2.0
NOT_TAKEN = (*ARRIVALS, "shared_memory", "duration", "warmup", "model_name", "max_error_share", "request_log")


@takes_load(without=NOT_TAKEN, warmup="0", max_error_share="0")
def mlperf(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="Workload; `servemark list` shows them.")],
    scenario: Annotated[str, typer.Option(metavar="S", help="SingleStream, MultiStream, Server or Offline.")],
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    device: Device = "",
    option: EngineOption = None,
    instances: Instances = None,
    target_qps: Annotated[float, typer.Option(metavar="R", min=0, help="Server: arrivals/s.")] = 0.0,
    min_duration: Annotated[float, typer.Option(metavar="S", min=0.1, help="The rules ask for 600.")] = 60.0,
    min_queries: Annotated[int, typer.Option(metavar="N", min=1, help="LoadGen's early stopping judges fewer.")] = 100,
    *,
    load: LoadFlags,
    json: Json = False,
) -> None:
    """Run an MLPerf scenario through the official LoadGen; the Server scenario's bound is --slo, else the workload's.

    Example: servemark mlperf ranking --scenario Server --target-qps 500 --min-duration 60
    """
    if scenario not in [*MlperfScenario]:
        raise OptionError(f"--scenario {scenario!r} is unknown", fix=f"one of: {', '.join(MlperfScenario)}")
    if scenario == MlperfScenario.SERVER and not target_qps:
        raise OptionError("the Server scenario needs the rate of its arrivals", fix="--target-qps 100")
    require_loadgen()
    flags = load.for_locust(model=workload, engine=engine, precision=precision, duration=min_duration)
    config = check(flags, load.seed, load.url)
    settings = Settings.from_options(device, option or (), instances)
    with server_for(config, load.url, settings) as address:
        target = open_target(check(flags, load.seed, address))
        result, directory = _measure(target, MlperfScenario(scenario), config, target_qps, min_queries)
    results.write(directory, result)
    if json:
        results.print_json(result)
    else:
        render_mlperf(result, stdout())
    note(f"result: {os.path.relpath(directory)}")
    if result["partial"]:
        # LoadGen goes on in its thread, and crashes an interpreter that ends around it.
        sys.stdout.flush()
        os._exit(interrupts.EXIT_CODE)
    raise typer.Exit(int(result["verdict"]["exit_code"]))


def _measure(
    target: Target, scenario: MlperfScenario, config: LoadConfig, target_qps: float, min_queries: int
) -> tuple[dict[str, Any], Path]:
    """Probe what LoadGen wants to know ahead, let it run, and put its figures beside ours."""
    placement = target.prepare()
    golden = config.entry.read_golden()
    objective = config.slo or config.workload.slo
    concurrency = PROBE_CONCURRENCY if scenario is MlperfScenario.OFFLINE else 1
    requests = target.payloads(golden)
    latency_ms, rate = probe(target, requests, concurrency, least_s=PROBE_S, timeout_s=config.request_timeout_s)
    plan = MlperfPlan(
        scenario=scenario,
        expected_qps=target_qps or HEADROOM * rate,
        expected_latency_ms=latency_ms / HEADROOM,
        min_duration_s=config.duration_s,
        min_queries=min_queries,
        latency_ms=objective.limit_ms,
        percentile=objective.percentile,
        seed=config.seed,
    )
    directory = results.new_directory(config.out, f"{config.model}-mlperf-{scenario.value.lower()}")
    note(f"LoadGen: {scenario.value}, at least {config.duration_s:g} s and {min_queries} queries")
    timeout_s, most = config.request_timeout_s, config.max_in_flight
    seen = run(target, requests, plan, directory, timeout_s=timeout_s, max_in_flight=most)
    result = {
        "schema_version": results.SCHEMA_VERSION,
        "kind": "mlperf",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "config": {**config.to_dict(), "scenario": scenario.value, "plan": asdict(plan)},
        "workload": config.workload.name,
        "engine": placement.engine,
        "device": placement.device,
        "provider": placement.provider,
        "precision": config.precision,
        "protocol": target.protocol,
        "environment": collect(),
        "partial": seen.interrupted,
        **_figures(config, seen, golden, directory),
    }
    return result, directory


def _figures(config: LoadConfig, seen: LoadGenOutcomes, golden: Golden | None, logs: Path) -> dict[str, Any]:
    """LoadGen's figures and verdict, this side's, and both verdicts as one."""
    log = {} if seen.interrupted else read_log(logs)
    official = log.get("result_validity")
    outputs = config.workload.outputs
    agreement, mismatch = (
        agreement_figures(seen.sampled, golden, outputs, config.workload.agreement.at(config.precision))
        if golden
        else (unchecked(f"no golden outputs: `{config.entry.export_command()}`"), None)
    )
    why = log.get("result_invalid_reason", "interrupted" if seen.interrupted else "see mlperf_log_summary.txt")
    errors = seen.errors.total()
    constraints = [
        Constraint("loadgen", official == "VALID", None, None, "", str(why).strip()),
        Constraint("error_share", not errors, float(errors), 0.0, "failed requests", "see the errors by kind"),
    ]
    if golden:
        remedy = mismatch or "no golden request was answered: raise --min-duration"
        right = mismatch is None and bool(agreement["checked"])
        constraints.append(Constraint("output_agreement", right, agreement["checked"], 1, "outputs checked", remedy))
    return {
        "loadgen": {
            "validity": official,
            **{key.removeprefix("result_"): value for key, value in log.items() if key.startswith("result_")},
            "early_stopping": {key: value for key, value in log.items() if key.startswith("early_stopping")},
            "version": log.get("loadgen_version"),
        },
        "metrics": {
            "latency_ms": seen.latency.summary(),
            "errors": {
                "count": errors,
                "by_kind": dict(seen.errors),
                "messages": {kind: config.access.redact(text) for kind, text in seen.messages.items()},
            },
            "accuracy": {"output_agreement": agreement},
        },
        "verdict": Verdict(constraints).to_dict(),
    }
