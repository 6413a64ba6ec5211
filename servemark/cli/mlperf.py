"""`servemark mlperf`: an MLPerf Inference scenario through MLCommons' own LoadGen."""

import os
import sys
from argparse import Namespace
from typing import Annotated

import typer

from loadgen.mlperf.plan import MlperfScenario, require_loadgen
from servemark import interrupts
from servemark.cli._command import one_command
from servemark.cli._load_flags import require_scoring, resolve, takes_load
from servemark.cli._options import (
    DEFAULT_ENGINE,
    DEFAULT_PRECISION,
    Device,
    Engine,
    EngineOption,
    Instances,
    Json,
    Precision,
    WorkloadName,
    count,
    quantity,
)
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, write_report
from servemark.documents.fields import MLPERF
from servemark.errors import OptionError
from servemark.output import note, stdout
from servemark.paths import shown
from servemark.quantities import RATES, SECONDS, one_of, text_of
from servemark.repository.model_config import Settings
from servemark.results import directory as results
from servemark.runs.mlperf import run_mlperf
from servemark.views.terminal.mlperf import render_mlperf


@takes_load(MLPERF)
def mlperf(
    workload: WorkloadName,
    scenario: Annotated[str, typer.Option(metavar="S", help="SingleStream, MultiStream, Server or Offline.")],
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    device: Device = "",
    option: EngineOption = None,
    instances: Instances = None,
    target_qps: Annotated[float, quantity("--target-qps", "R", "Server: arrivals/s.", least=0, units=RATES)] = 0.0,
    min_duration: Annotated[
        float, quantity("--min-duration", "S", "The rules ask for 600.", least=0.1, units=SECONDS)
    ] = 60.0,
    min_queries: Annotated[int, count("--min-queries", "LoadGen's early stopping judges fewer.")] = 100,
    accuracy: Annotated[
        bool,
        typer.Option("--quality", "--accuracy", help="Accuracy mode: score the labelled data set once by its metric."),
    ] = False,
    *,
    load: Namespace,
    report: Report = False,
    json: Json = False,
) -> None:
    """Run an MLPerf scenario through the official LoadGen; the Server scenario's bound is --slo, else the workload's.

    Example: servemark mlperf ranking --scenario Server --target-qps 500 --min-duration 60
    """
    chosen = MlperfScenario(one_of("--scenario", scenario, MlperfScenario))
    if chosen is MlperfScenario.SERVER and not target_qps:
        raise OptionError("the Server scenario needs the rate of its arrivals", fix="--target-qps 100")
    require_loadgen()
    require_scoring(load, "--quality", given=accuracy)
    if accuracy:
        load.input_data = "dataset" if load.input_data == "synthetic" else load.input_data
        if load.batch_size != "1":
            raise OptionError("LoadGen's samples go out one by one", fix="leave out --batch-size")
    config = resolve(
        load,
        model=workload,
        engine=engine,
        precision=precision,
        duration=text_of(min_duration),
        warmup="0",
        max_error_rate="0",
    )
    settings = Settings.from_options(device, option or (), instances)
    directory, result = run_mlperf(
        config,
        chosen,
        target_qps=target_qps,
        min_queries=min_queries,
        accuracy=accuracy,
        given=bool(load.url),
        settings=settings,
    )
    if json:
        results.print_json(result)
    else:
        render_mlperf(result, stdout())
    note(f"result: {shown(directory)}")
    if report:
        write_report(directory, quiet=json)
    if result["partial"]:
        # LoadGen goes on in its thread, and crashes an interpreter that ends around it.
        sys.stdout.flush()
        os._exit(interrupts.EXIT_CODE)
    raise typer.Exit(int(result["verdict"]["exit_code"]))


app = one_command(takes_own_models(mlperf))
