"""`servemark explain`, and `servemark run --explain`: why the slowest requests are slow, and what would help."""

from dataclasses import replace

from servemark.cli._load import resolved
from servemark.cli._report import conclude
from servemark.documents.commands.measure import Asked
from servemark.documents.commands.understand import Explain
from servemark.documents.request import RunRequest
from servemark.errors import ExitCode, OptionError
from servemark.explain.capture import explained_again, explaining
from servemark.explain.ladder import climb, try_fix
from servemark.paths import found
from servemark.results import directory
from servemark.runs.locust_process import drive
from servemark.workload.registry import UnknownWorkloadError, own_files


def explained_run(request: RunRequest, options: Asked) -> int:
    """Make one run, explain it, measure what the options ask for besides, and report it; the exit code."""
    if "=" in request.workload:
        raise OptionError("--explain is for one workload, not a mix", fix="explain its workloads one by one")
    config = resolved(request)
    folder = directory.new_directory(config.out, config.model)
    with explaining(config, drive) as measure:
        result = measure(replace(config, result_dir=folder))
    if isinstance(options, Explain) and options.try_it:
        try_fix(config, folder, result, options.rounds)
    if isinstance(options, Explain) and options.ladder:
        climb(config, folder, result, options.rounds)
    conclude(folder, result, options)
    return int(result["verdict"]["exit_code"])


def explain(options: Explain) -> int:
    """Explain a run that is made, or one that was; the exit code."""
    folder = found(options.workload)
    if not (folder / directory.RESULT_FILE).is_file():
        try:
            return explained_run(options.request(options.workload, **own_files(), explain=True), options)
        except UnknownWorkloadError as error:
            what = f"{options.workload!r} is neither a workload nor the directory of a run"
            raise OptionError(what, fix=error.fix) from error
    result = directory.read_run(folder)
    result["explanation"] = explained_again(folder)
    conclude(folder, result, options)
    return int(ExitCode.VALID)
