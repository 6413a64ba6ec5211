"""`servemark profile`: where the time of one inference goes, and the memory, on each engine."""

from pathlib import Path

import typer

from servemark.cli._command import one_command
from servemark.cli._load_flags import takes_options
from servemark.cli._options import DEFAULT_PRECISION, DEFAULT_REPOSITORY, Json, Precision, Repository, WorkloadName
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, conclude
from servemark.documents.commands import Profiling
from servemark.errors import ExitCode, OptionError
from servemark.paths import RESULTS
from servemark.profiling.engines import profilers
from servemark.profiling.measure import Order
from servemark.profiling.run import installed
from servemark.profiling.run import profile as run
from servemark.quantities import one_of
from servemark.workload import get


@takes_options(Profiling)
def profile(
    workload: WorkloadName,
    precision: Precision = DEFAULT_PRECISION,
    *,
    options: Profiling,
    model_repository: Repository = DEFAULT_REPOSITORY,
    report: Report = False,
    json: Json = False,
) -> None:
    """Time one warm inference by operator and layer, as each engine's own profiler sees it, and measure its memory.

    The result directory also gets the timeline for speedscope and for Chrome's trace viewer. Exit code 2: an engine
    could not be profiled.

    Example: servemark profile resnet50 --report

    Example: servemark profile ranking -b 8 --engine onnxruntime --batches 1,2,4,8
    """
    get(workload)
    found = installed(options.device)
    engines = [one_of("--engine", name, profilers()) for name in options.engine] or found
    if missing := [name for name in engines if name not in found]:
        raise OptionError(f"{missing[0]} is not installed for {options.device}", fix="servemark doctor shows what is")
    orders = [
        Order(workload, name, model_repository, options.batch_size, precision, options.device) for name in engines
    ]
    out = Path(options.out or RESULTS)
    ceilings = not options.no_ceilings
    directory, document = run(orders, options.memory_batches, out, ceilings=ceilings, budget_s=options.budget_s)
    conclude(directory, document, report=report, json=json)
    left_out = document["partial"] or any(each["latency_ms"] is None for each in document["engines"])
    raise typer.Exit(int(ExitCode.INVALID if left_out else ExitCode.VALID))


app = one_command(takes_own_models(profile))
