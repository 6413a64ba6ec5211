"""Runs whose progress this process draws on the terminal, in the place of their own reports."""

import contextlib
from contextlib import AbstractContextManager
from dataclasses import replace

from loadgen.load.load_config import LoadConfig
from servemark import interrupts
from servemark.errors import NoResultError, ResultError
from servemark.results import directory as results
from servemark.results.schema.run import Result
from servemark.runs.locust_process import drive_into, read_result
from servemark.views.live.progress import report
from servemark.views.live.screen import Screen
from servemark.views.live.watched import Drawing, drawn_where_seen


def drawing_of(title: str, config: LoadConfig, *, quiet: bool = False) -> AbstractContextManager[Drawing | None]:
    """Draw the runs of a configuration below a title where somebody looks, else yield None."""
    return drawn_where_seen(Screen(title), quiet=quiet, grace_s=config.metrics.metrics_grace_s)


def drive_watched(config: LoadConfig, *, workers: int = 1) -> Result:
    """Drive a run and report it; this process draws how it stands where somebody looks. Raises as `drive`."""
    directory = config.result_dir or results.new_directory(config.out, config.model)
    config = replace(config, result_dir=directory)
    drawing = None
    try:
        with drawing_of(f"{config.model}, {config.protocol}", config) as drawing:
            words = drawing.words if drawing else None
            result = drive_into(config, words, words, workers=workers, observer=drawing)
    except KeyboardInterrupt:
        if drawing:
            with contextlib.suppress(NoResultError, ResultError):
                report(directory, read_result(directory, interrupts.EXIT_CODE))
        raise
    if drawing:
        report(directory, result)
    return result
