"""`servemark quality`: how right the answers are, by the field's metric on a labelled data set."""

from argparse import Namespace
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._load_flags import resolve, takes_load
from servemark.cli._options import (
    DEFAULT_ENGINE,
    DEFAULT_PRECISION,
    Engine,
    Json,
    Precision,
    WorkloadName,
    count,
)
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, conclude
from servemark.documents.fields import QUALITY
from servemark.errors import ExitCode
from servemark.runs.quality import run_quality


@takes_load(QUALITY, input_data="dataset", concurrency="4")
def quality(
    workload: WorkloadName,
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    samples: Annotated[int | None, count("--samples", "Number of examples: a random subset, drawn by --seed.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, also where a run was interrupted.")] = False,
    *,
    load: Namespace,
    report: Report = False,
    json: Json = False,
) -> None:
    """Send a labelled data set through a server, and compute the field's metric of the answers.

    Failed requests count as wrong. An interrupted run continues. Exit code 4: trained weights miss the target.

    Example: servemark quality ncf_ml100k --samples 200
    """
    config = resolve(load, model=workload, engine=engine, precision=precision, warmup="0")
    directory, result = run_quality(config, samples=samples, fresh=fresh)
    conclude(directory, result, report=report, json=json)
    missed = result["quality"] is not None and result["quality"]["outcome"] == "missed"
    raise typer.Exit(int(ExitCode.SLO_MISSED if missed else ExitCode.VALID))


app = one_command(takes_own_models(quality))
