"""`servemark characterise`: what a suite is made of, and which few of its workloads stand for all."""

from pathlib import Path

from servemark.characterise.run import Characterised, begin
from servemark.characterise.tables import every
from servemark.cli._report import conclude, write_report
from servemark.documents.commands.understand import Characterise
from servemark.errors import ExitCode, OptionError
from servemark.results import directory as results
from servemark.results.saved import Saved
from servemark.results.schema.characterisation import Characterisation
from servemark.views.kinds.characterisation import checks


def characterise(options: Characterise) -> int:
    """Characterise a suite; the exit code."""
    name = options.suite
    if options.resume:
        folder = Path(options.resume)
        document = results.read_as(folder, Characterisation)
        if document["suite"] != name:
            raise OptionError(f"{folder} is of the suite {document['suite']}, not {name}", fix="name that suite")
    else:
        document = begin(name, options)
        folder = results.new_directory(options.out, f"characterise-{name}")
    found = Characterised(document, folder, options.model_repository)
    try:
        found.run(ceilings=not options.no_ceilings)
    finally:
        for table, data in every(document).items():
            results.write_atomically(folder / f"{table}.csv", data.to_csv())
        if document["partial"] and options.report:
            write_report(folder)
    conclude(folder, document, report=options.report, json=options.json)
    failed = any(not check.ok for check in checks(Saved(folder.name, dict(document), folder)))
    return int(ExitCode.INVALID if failed else ExitCode.VALID)
