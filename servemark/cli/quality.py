"""`servemark quality`: how right the answers are, by the field's metric on a labelled data set."""

from servemark.cli._load import resolved
from servemark.cli._report import conclude
from servemark.documents.commands.measure import Quality
from servemark.errors import ExitCode
from servemark.runs.quality import run_quality


def quality(options: Quality) -> int:
    """Score the answers; the exit code."""
    config = resolved(options.request(options.workload, warmup="0"), scored=True)
    directory, result = run_quality(config, samples=options.samples, fresh=options.fresh)
    conclude(directory, result, options)
    missed = result["quality"] is not None and result["quality"]["outcome"] == "missed"
    return int(ExitCode.SLO_MISSED if missed else ExitCode.VALID)
