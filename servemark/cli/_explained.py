"""A run with its explanation: `servemark explain WORKLOAD` and `servemark run --explain`."""

from dataclasses import replace

from servemark.cli._load import resolved
from servemark.cli._report import conclude
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.explain.capture import explaining
from servemark.explain.ladder import climb
from servemark.explain.trial import try_fix
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
