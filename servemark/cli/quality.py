"""`servemark quality`: how right the answers are, by the field's metric on a labelled data set."""

from argparse import Namespace
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._load_flags import concerns_a_server, requested, resolved, takes_load
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
)
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, write_report
from servemark.documents.fields import QUALITY
from servemark.errors import ExitCode, OptionError
from servemark.output import note, stdout
from servemark.paths import shown
from servemark.repository.model_config import Settings
from servemark.results import directory as results
from servemark.runs.quality import run_quality
from servemark.views.quality import render_quality


@takes_load(QUALITY, input_data="dataset", concurrency="4")
def quality(
    workload: WorkloadName,
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    device: Device = "",
    option: EngineOption = None,
    instances: Instances = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="No server: the engine answers in this process.")
    ] = False,
    samples: Annotated[int | None, count("--samples", "A random subset of so many examples, drawn by --seed.")] = None,
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
    request = requested(load, model=workload, engine=engine, precision=precision, warmup="0")
    if in_process and concerns_a_server(request):
        raise OptionError("--in-process has no server", fix="leave out what is for a server")
    config = resolved(request)
    settings = Settings.from_options(device, option or (), instances)
    directory, result = run_quality(
        config, samples=samples, given=bool(load.url), in_process=in_process, fresh=fresh, settings=settings
    )
    if json:
        results.print_json(result)
    else:
        render_quality(result, stdout())
    note(f"result: {shown(directory)}")
    if report:
        write_report(directory, quiet=json)
    missed = result["quality"] is not None and result["quality"]["outcome"] == "missed"
    raise typer.Exit(int(ExitCode.SLO_MISSED if missed else ExitCode.VALID))


app = one_command(takes_own_models(quality))
