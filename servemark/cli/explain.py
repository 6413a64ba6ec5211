"""`servemark explain`: why the slowest requests are slow, and what would help."""

from servemark.cli._explained import explained_run
from servemark.cli._own_models import own_files
from servemark.cli._report import conclude
from servemark.documents.commands.understand import Explain
from servemark.errors import ExitCode
from servemark.explain.capture import explained_again
from servemark.paths import found
from servemark.results import directory


def explain(options: Explain) -> int:
    """Explain a run that is made, or one that was; the exit code."""
    folder = found(options.workload)
    if (folder / directory.RESULT_FILE).is_file():
        result = directory.read_run(folder)
        result["explanation"] = explained_again(folder)
        conclude(folder, result, report=options.report, json=options.json)
        return int(ExitCode.VALID)
    request = options.request(options.workload, **own_files(), explain=True)
    return explained_run(
        request,
        report=options.report,
        json=options.json,
        try_it=options.try_it,
        ladder=options.ladder,
        rounds=options.rounds,
    )
