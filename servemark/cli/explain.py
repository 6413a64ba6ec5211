"""`servemark explain`: why the slowest requests are slow, and what would help."""

from pathlib import Path

import typer

from servemark.cli._asked import Asked, takes_run
from servemark.cli._command import one_command
from servemark.cli._explained import explained_run
from servemark.cli._load_flags import takes_load, takes_options
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import conclude
from servemark.cli._run_file import TakesDefaults
from servemark.documents.commands import Explaining
from servemark.documents.fields import RUN
from servemark.explain.capture import explained_again
from servemark.results import directory


@takes_options(Explaining)
@takes_load(RUN)
@takes_run("WORKLOAD|RESULT", "Workload to run and explain, or a result directory of `run --explain`.")
def explain(asked: Asked, options: Explaining) -> None:
    """Say why requests are slow, the usual and the slowest, in one sentence, with the change that would help.

    Of 440 causes that were planted, 428 were named rightly (docs/results/explained.txt). --try measures the change.

    Example: servemark explain ranking --request-rate 400 --duration 30 --try

    Example: servemark explain resnet50 --concurrency 4 --duration 20 --ladder
    """
    folder = Path(asked.workload)
    if (folder / directory.RESULT_FILE).is_file():
        result = directory.read_run(folder)
        result["explanation"] = explained_again(folder)
        conclude(folder, result, report=asked.report, json=asked.json)
        return
    request = asked.request(explain=True)
    raise typer.Exit(explained_run(request, options, report=asked.report, json=asked.json))


app = one_command(takes_own_models(explain), cls=TakesDefaults)
