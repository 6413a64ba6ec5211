"""`servemark mlperf`: an MLPerf Inference scenario through MLCommons' own LoadGen."""

import os
import sys

import msgspec

from loadgen.peers.official_loadgen import require_loadgen
from servemark import interrupts
from servemark.cli._load import resolved
from servemark.cli._report import conclude
from servemark.documents.commands.measure import Mlperf
from servemark.documents.request import DATASET, SYNTHETIC
from servemark.errors import OptionError
from servemark.quantities import text_of
from servemark.runs.mlperf import run_mlperf
from servemark.workload import get
from servemark.workload.suites import mlperf_inference


def mlperf(options: Mlperf) -> int:
    """Run a scenario; the exit code."""
    require_loadgen()
    if options.official:
        options = _official(options)
    options.require_scoring(given=options.accuracy)
    input_data = options.given["input_data"]
    if options.accuracy:
        input_data = DATASET if input_data == SYNTHETIC else input_data
        if options.given["batch_size"] != "1":
            raise OptionError("LoadGen's samples go out one by one", fix="leave out --batch-size")
    request = options.request(
        options.workload,
        input_data=input_data,
        duration=text_of(options.min_duration_s),
        warmup="0",
        max_error_rate="0",
    )
    config = resolved(request, scored=options.accuracy)
    directory, result = run_mlperf(config, options)
    conclude(directory, result, options)
    if result["partial"]:
        # LoadGen goes on in its thread, and crashes an interpreter that ends around it.
        sys.stdout.flush()
        os._exit(interrupts.EXIT_CODE)
    return int(result["verdict"]["exit_code"])


def _official(options: Mlperf) -> Mlperf:
    """Take the round's settings in place of the usual ones. Raises OptionError for a workload that it does not have."""
    settings = mlperf_inference.settings_of(get(options.workload).name)
    if settings is None:
        raise OptionError(
            f"--official: {options.workload} is not of {mlperf_inference.LABEL}",
            fix="one of: " + ", ".join(mlperf_inference.WORKLOADS),
        )
    return msgspec.structs.replace(
        options,
        official=False,
        min_duration_s=mlperf_inference.MIN_DURATION_S,
        min_queries=settings.queries(options.scenario),
    )
