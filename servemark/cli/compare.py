"""`servemark compare`: engines side by side in interleaved rounds, or saved results against each other."""

from typing import Annotated

import typer

from servemark.cli.options import (
    DEFAULT_DATA_ROOT,
    DEFAULT_PRECISION,
    DEFAULT_REPOSITORY,
    BatchSize,
    Concurrency,
    DataRoot,
    Duration,
    GammaCv,
    InputData,
    Json,
    MaxErrorShare,
    MaxInFlight,
    Objective,
    Out,
    Precision,
    Protocol,
    Repository,
    RequestDistribution,
    RequestRate,
    RequestTimeout,
    Seed,
    SharedMemory,
    Stages,
    Streaming,
    Trace,
    Url,
    Warmup,
)
from servemark.cli.ranges import load_points
from servemark.cli.settings import Device
from servemark.cli.tune import BUDGET_S
from servemark.errors import OptionError
from servemark.paths import RESULTS

PAIRS = 5


def compare(
    what: Annotated[
        list[str], typer.Argument(metavar="WORKLOAD | RESULT_A RESULT_B", help="A workload, or two saved results.")
    ],
    engines: Annotated[
        str, typer.Option(metavar="A,B[,C]", help="Engines; ENGINE[@PRECISION][:KEY=VALUE]. A is the first.")
    ] = "",
    precision: Precision = DEFAULT_PRECISION,
    pairs: Annotated[int, typer.Option(metavar="N", min=1, help="Interleaved rounds.")] = PAIRS,
    url: Url = "",
    protocol: Protocol = "",
    streaming: Streaming = False,
    shared_memory: SharedMemory = "none",
    device: Device = "",
    isolate: Annotated[bool, typer.Option("--isolate", help="A server of its own for each turn.")] = False,
    skip_unavailable: Annotated[
        bool, typer.Option("--skip-unavailable", help="Leave out engines that cannot be used, and say so.")
    ] = False,
    batch_size: BatchSize = "1",
    concurrency: Concurrency = "",
    request_rate: RequestRate = "",
    stages: Stages = "",
    trace: Trace = "",
    request_distribution: RequestDistribution = "poisson",
    gamma_cv: GammaCv = "",
    duration: Duration = "8",
    warmup: Warmup = "1",
    seed: Seed = 0,
    slo: Objective = "",
    max_rate: Annotated[
        bool, typer.Option("--max-rate", help="Search each engine's highest rate that meets --slo, after the rounds.")
    ] = False,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Tune each engine for --slo first, as servemark tune does; writes none.")
    ] = False,
    tune_budget: Annotated[float, typer.Option(metavar="S", min=1, help="Seconds to tune each engine.")] = BUDGET_S,
    input_data: InputData = "synthetic",
    data_root: DataRoot = DEFAULT_DATA_ROOT,
    out: Out = RESULTS,
    request_timeout: RequestTimeout = "30",
    max_in_flight: MaxInFlight = "1024",
    max_error_share: MaxErrorShare = "0.01",
    model_repository: Repository = DEFAULT_REPOSITORY,
    fail_on: Annotated[str, typer.Option(metavar="regression", help="Exit 5 where RESULT_B is worse.")] = "",
    threshold: Annotated[
        float, typer.Option(metavar="PERCENT", min=0, help="Smaller differences are no regression.")
    ] = 5.0,
    json: Json = False,
) -> None:
    """Compare engines in interleaved rounds, or saved results with each other.

    Example: servemark compare resnet50 --engines onnxruntime,pytorch

    Example: servemark compare results/before results/after --fail-on regression
    """
    if not engines:
        from servemark.cli.saved import compare_saved

        raise typer.Exit(compare_saved(what, fail_on=fail_on, threshold=threshold, json=json))
    if len(what) != 1 or fail_on:
        wrong = "--fail-on" if fail_on else f"{len(what)} workloads"
        raise OptionError(f"--engines with {wrong}", fix="one WORKLOAD with --engines, or two results without")
    if (max_rate or tuned) and not slo:
        flag = "--max-rate" if max_rate else "--tuned"
        raise OptionError(f"{flag} needs an objective", fix="give one, like --slo p99:50")
    [load] = load_points(concurrency, "", request_rate, "", stages, trace)
    flags = {
        "model": what[0],
        "protocol": protocol,
        "streaming": streaming,
        "shared_memory": shared_memory,
        "request_distribution": request_distribution,
        "gamma_cv": gamma_cv,
        "duration": duration,
        "warmup": warmup,
        "batch_size": batch_size,
        "slo": slo,
        "input_data": input_data,
        "data_root": data_root,
        "model_repository": model_repository,
        "out": out,
        "request_timeout": request_timeout,
        "max_in_flight": max_in_flight,
        "max_error_share": max_error_share,
    }
    from servemark.cli.side_by_side import Request, compare_engines

    request = Request(
        workload=what[0],
        engines=engines,
        precision=precision,
        pairs=pairs,
        url=url,
        device=device,
        isolate=isolate,
        skip_unavailable=skip_unavailable,
        flags=flags,
        load=load,
        seed=seed,
        max_rate=max_rate,
        tune_budget_s=tune_budget if tuned else None,
    )
    raise typer.Exit(compare_engines(request, json=json))
