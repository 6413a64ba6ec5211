"""`servemark explain`, and `servemark run --explain`: why the slowest requests are slow, and what would help."""

from dataclasses import replace

from servemark.cli._load import resolved
from servemark.cli._own_models import own_files
from servemark.cli._report import conclude
from servemark.documents.commands.understand import Explain
from servemark.documents.request import RunRequest
from servemark.errors import ExitCode, OptionError
from servemark.explain.capture import explained_again, explaining
from servemark.explain.ladder import climb, try_fix
from servemark.paths import found
from servemark.results import directory
from servemark.runs.locust_process import drive


def explained_run(
    request: RunRequest, *, report: bool, json: bool, try_it: bool = False, ladder: bool = False, rounds: int = 0
) -> int:
    """Make one run, explain it, measure what the options ask for besides, and report it; the exit code."""
    if "=" in request.workload:
        raise OptionError("--explain is for one workload, not a mix", fix="explain its workloads one by one")
    config = resolved(request)
    folder = directory.new_directory(config.out, config.model)
    with explaining(config, drive) as measure:
        result = measure(replace(config, result_dir=folder))
    if try_it:
        try_fix(config, folder, result, rounds)
    if ladder:
        climb(config, folder, result, rounds)
    conclude(folder, result, report=report, json=json)
    return int(result["verdict"]["exit_code"])


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
