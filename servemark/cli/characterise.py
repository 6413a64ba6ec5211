"""`servemark characterise`: what a suite is made of, and which few of its workloads stand for all."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.characterise.run import Characterised, begin
from servemark.characterise.tables import every
from servemark.cli._command import one_command
from servemark.cli._load_flags import takes_options
from servemark.cli._options import DEFAULT_REPOSITORY, Json, Repository
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, conclude, write_report
from servemark.documents.commands import Characterising
from servemark.errors import ExitCode, OptionError
from servemark.paths import RESULTS
from servemark.results import directory as results
from servemark.results.saved import Saved
from servemark.results.schema.characterisation import Characterisation
from servemark.views.kinds.characterisation import checks


@takes_options(Characterising)
def characterise(
    name: Annotated[str, typer.Argument(metavar="SUITE", help="aibench, ai-matrix, subset, own or all.")],
    *,
    options: Characterising,
    model_repository: Repository = DEFAULT_REPOSITORY,
    report: Report = False,
    json: Json = False,
) -> None:
    """Measure each workload of a suite on each engine, cluster them, and test which few stand for all.

    The result directory gets the data of each figure as CSV. Exit code 2: a workload failed somewhere. Ctrl-C keeps
    what there is, and --resume goes on with it.

    Example: servemark characterise aibench --report

    Example: servemark characterise own --engines onnxruntime,openvino@int8 --size 2
    """
    if options.resume:
        folder = Path(options.resume)
        document = results.read_as(folder, Characterisation)
        if document["suite"] != name:
            raise OptionError(f"{folder} is of the suite {document['suite']}, not {name}", fix="name that suite")
    else:
        document = begin(name, options)
        folder = results.new_directory(Path(options.out or RESULTS), f"characterise-{name}")
    found = Characterised(document, folder, model_repository)
    try:
        found.run(ceilings=not options.no_ceilings)
    finally:
        for table, data in every(document).items():
            results.write_atomically(folder / f"{table}.csv", data.to_csv())
        if document["partial"] and report:
            write_report(folder)
    conclude(folder, document, report=report, json=json)
    failed = any(not check.ok for check in checks(Saved(folder.name, dict(document), folder)))
    raise typer.Exit(int(ExitCode.INVALID if failed else ExitCode.VALID))


app = one_command(takes_own_models(characterise))
