"""`servemark synthesise`: one network whose layers match those of several."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._load_flags import takes_options
from servemark.cli._options import DEFAULT_REPOSITORY, Json, Repository
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, conclude
from servemark.documents.commands import Synthesising
from servemark.paths import RESULTS
from servemark.synthesis.run import synthesise as make


@takes_options(Synthesising)
def synthesise(
    names: Annotated[list[str], typer.Argument(metavar="WORKLOAD...", help="Workloads that it shall stand for.")],
    *,
    options: Synthesising,
    model_repository: Repository = DEFAULT_REPOSITORY,
    report: Report = False,
    json: Json = False,
) -> None:
    """Make a network whose layers have the statistics of the given workloads, and hold it against them.

    The result directory gets NAME.py, a workload file: `servemark run NAME --workload-file DIR/NAME.py`.

    Example: servemark synthesise googlenet vgg16 resnet50 resnet152 densenet121 --name cnns

    Example: servemark synthesise googlenet resnet50 --engines onnxruntime,openvino --held-out vgg16

    Example: servemark synthesise transformer nmt --name translators
    """
    folder, document = make(names, options, Path(options.out or RESULTS), model_repository)
    conclude(folder, document, report=report, json=json)


app = one_command(takes_own_models(synthesise))
