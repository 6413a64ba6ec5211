"""A run with its explanation: `servemark explain WORKLOAD` and `servemark run --explain`."""

from dataclasses import replace
from pathlib import Path

from servemark.cli._load_flags import resolved
from servemark.cli._report import conclude
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.explain.capture import explaining
from servemark.explain.trial import try_fix
from servemark.results import directory
from servemark.results.schema.run import Result
from servemark.runs.locust_process import drive


def explained_run(request: RunRequest, *, report: bool, json: bool, try_rounds: int = 0) -> int:
    """Make one run, explain and report it, and try its fix in some rounds; the exit code."""
    if "=" in request.workload:
        raise OptionError("--explain is for one workload, not a mix", fix="explain its workloads one by one")
    folder, result = explained(request, try_rounds=try_rounds)
    conclude(folder, result, report=report, json=json)
    return int(result["verdict"]["exit_code"])


def explained(request: RunRequest, *, try_rounds: int = 0) -> tuple[Path, Result]:
    """Make one run and explain it."""
    config = resolved(request)
    folder = directory.new_directory(config.out, config.model)
    with explaining(config, drive) as measure:
        result = measure(replace(config, result_dir=folder))
    if try_rounds:
        try_fix(config, folder, result, try_rounds)
    return folder, result
