"""`servemark mlperf`: an MLPerf Inference scenario through MLCommons' own LoadGen."""

import os
import sys
from argparse import Namespace
from typing import Annotated

import typer

from loadgen.mlperf.plan import require_loadgen
from servemark import interrupts
from servemark.cli._command import one_command
from servemark.cli._load_flags import require_scoring, resolve, takes_load, takes_options
from servemark.cli._options import (
    DEFAULT_ENGINE,
    DEFAULT_PRECISION,
    Engine,
    Json,
    Precision,
    WorkloadName,
)
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, conclude
from servemark.documents.commands import Mlperf
from servemark.documents.fields import MLPERF
from servemark.errors import OptionError
from servemark.quantities import text_of
from servemark.runs.mlperf import run_mlperf


@takes_options(Mlperf)
@takes_load(MLPERF)
def mlperf(
    workload: WorkloadName,
    *,
    options: Mlperf,
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    accuracy: Annotated[
        bool,
        typer.Option("--quality", "--accuracy", help="Accuracy mode: score the labelled data set once by its metric."),
    ] = False,
    load: Namespace,
    report: Report = False,
    json: Json = False,
) -> None:
    """Run an MLPerf scenario through the official LoadGen; the Server scenario's bound is --slo, else the workload's.

    Example: servemark mlperf ranking --scenario Server --target-qps 500 --min-duration 60
    """
    require_loadgen()
    require_scoring(load, "--quality", given=accuracy)
    if accuracy:
        load.input_data = "dataset" if load.input_data == "synthetic" else load.input_data
        if load.batch_size != "1":
            raise OptionError("LoadGen's samples go out one by one", fix="leave out --batch-size")
    named = {"model": workload, "engine": engine, "precision": precision}
    config = resolve(load, **named, duration=text_of(options.min_duration_s), warmup="0", max_error_rate="0")
    directory, result = run_mlperf(config, options, accuracy=accuracy)
    conclude(directory, result, report=report, json=json)
    if result["partial"]:
        # LoadGen goes on in its thread, and crashes an interpreter that ends around it.
        sys.stdout.flush()
        os._exit(interrupts.EXIT_CODE)
    raise typer.Exit(int(result["verdict"]["exit_code"]))


app = one_command(takes_own_models(mlperf))
