"""`servemark explain`: why the slowest requests are slow, and what would help."""

from argparse import Namespace
from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._explained import explained_run
from servemark.cli._load_flags import requested, takes_load, takes_options
from servemark.cli._options import DEFAULT_ENGINE, DEFAULT_PRECISION, Engine, Json, Precision, Verbose, completed
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, conclude
from servemark.cli._run_file import ConfigFile, TakesDefaults
from servemark.cli._trust import Trust
from servemark.documents.commands import Explaining
from servemark.documents.fields import RUN, Names
from servemark.explain.capture import explained_again
from servemark.results import directory


@takes_options(Explaining)
@takes_load(RUN)
def explain(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|RESULT",
            help="Workload to run and explain, or a result directory of `run --explain`.",
            autocompletion=completed,
        ),
        Names.NOTHING,
    ],
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    *,
    options: Explaining,
    load: Namespace,
    config_file: ConfigFile = None,  # noqa: ARG001 - its callback reads it
    trust: Trust = False,  # noqa: ARG001 - what reads the command line looks at it
    report: Report = False,
    json: Json = False,
    verbose: Verbose = False,  # noqa: ARG001 - its callback says so to the report
) -> None:
    """Say why the slowest requests are slow, in one sentence, with the change that would help.

    Experimental: how often the named cause is the right one is not known yet.

    Example: servemark explain ranking --request-rate 400 --duration 30 --try
    """
    folder = Path(workload)
    if (folder / directory.RESULT_FILE).is_file():
        result = directory.read_run(folder)
        result["explanation"] = explained_again(folder)
        conclude(folder, result, report=report, json=json)
        return
    request = requested(load, model=workload, engine=engine, precision=precision, explain=True)
    rounds = options.rounds if options.try_it else 0
    raise typer.Exit(explained_run(request, report=report, json=json, try_rounds=rounds))


app = one_command(takes_own_models(explain), cls=TakesDefaults)
