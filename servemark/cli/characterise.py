"""`servemark characterise`: what a suite is made of, and which few of its workloads stand for all."""

from servemark.campaign import asked_of
from servemark.characterise.run import Characterised, begin
from servemark.cli._report import conclude, write_report
from servemark.documents.commands.understand import Characterise
from servemark.errors import ExitCode, OptionError
from servemark.paths import resumed
from servemark.results import directory as results
from servemark.results.saved import Saved
from servemark.results.schema.suite import Characterisation
from servemark.views.kinds.characterisation import checks


def characterise(options: Characterise) -> int:
    """Characterise a suite; the exit code."""
    name = options.suite
    if folder := resumed(options.resume):
        document = results.typed(asked_of(folder), folder, Characterisation)
        if document["suite"] != name:
            raise OptionError(f"{folder} is of the suite {document['suite']}, not {name}", fix="name that suite")
    else:
        document = begin(name, options)
        folder = results.new_directory(options.out, f"characterise-{name}")
    suite = Characterised(document, folder, options.model_repository, resume=bool(options.resume))
    try:
        suite.run(ceilings=not options.no_ceilings)
    except KeyboardInterrupt:
        if options.report and (folder / results.RESULT_FILE).exists():
            write_report(folder)
        raise
    conclude(folder, document, options)
    failed = any(not check.ok for check in checks(Saved(folder.name, dict(document), folder)))
    return int(ExitCode.INVALID if failed else ExitCode.VALID)
