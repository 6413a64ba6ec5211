"""`servemark run`: serve where nothing is served yet, drive with the task's locustfile, report."""

import contextlib
import functools
import os
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.evaluation.mix import parse_mix
from loadgen.load.flag import Names
from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import ConstantRate
from servemark.cli._command import one_command
from servemark.cli._load_flags import concerns_a_server, require_scoring, resolve, search_load, takes_load
from servemark.cli._options import (
    DEFAULT_ENGINE,
    DEFAULT_PRECISION,
    Device,
    Engine,
    EngineOption,
    Instances,
    Json,
    Precision,
    Verbose,
    completed,
    count,
)
from servemark.cli._own_models import takes_own_models
from servemark.cli._ranges import load_points, search_bounds
from servemark.cli._report import Report, write_report
from servemark.cli._run_file import ConfigFile, TakesDefaults
from servemark.cli._trust import Trust
from servemark.errors import ExitCode, OptionError
from servemark.max_rate.curve import curve
from servemark.max_rate.runs import RateRuns, find_max_rate, write_max_rate
from servemark.output import note, stdout
from servemark.paths import shown
from servemark.report.terminal.live import Screen
from servemark.report.terminal.max_rate import render_max_rate
from servemark.report.terminal.mix import render_mix
from servemark.report.terminal.series import render_curve, render_series
from servemark.repository.model_config import Settings
from servemark.results import directory
from servemark.results.objectives import written
from servemark.results.schema.run import Result
from servemark.runs.in_process import Measure, engines_for
from servemark.runs.locust_process import drive, drive_captured, drive_watched
from servemark.runs.mix import run_mix
from servemark.runs.server import server_for
from servemark.runs.watched import drawn_where_seen
from servemark.workload.imported import MODELS
from servemark.workload.registry import WORKLOADS


@takes_load()
def run(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="Workload, a mix like ranking=0.7,ncf=0.3, or with --url any model of the server.",
            autocompletion=completed,
        ),
        Names.NOTHING,
    ],
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    device: Device = "",
    option: EngineOption = None,
    instances: Instances = None,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="No server: the engine in this process, the baseline of serving."),
        Names.NOTHING,
    ] = False,
    concurrency_range: Annotated[
        str, typer.Option(metavar="S:E[:STEP]", help="One run for each concurrency."), Names.NOTHING
    ] = "",
    request_rate_range: Annotated[
        str, typer.Option(metavar="S:E[:STEP]", help="One run for each rate."), Names.NOTHING
    ] = "",
    max_rate: Annotated[
        str,
        typer.Option(metavar="[LOW:HIGH]", help="Search for the highest rate that meets --slo, between two rates."),
        Names.NOTHING,
    ] = "",
    workers: Annotated[int, count("--workers", "Processes that send the load, each a share of it."), Names.NOTHING] = 1,
    repeat: Annotated[int, count("--repeat", "Repeat each run, with the next seed."), Names.NOTHING] = 1,
    *,
    load: Namespace,
    config_file: ConfigFile = None,  # noqa: ARG001 - its callback reads it
    trust: Trust = False,  # noqa: ARG001 - what reads the command line looks at it
    report: Report = False,
    json: Json = False,
    verbose: Verbose = False,  # noqa: ARG001 - its callback says so to the processes that report
) -> None:
    """Measure one workload under load and judge the run.

    Example: servemark run resnet50 --request-rate 10 --slo p90:200
    """
    points = load_points(
        load, concurrency_range=concurrency_range, request_rate_range=request_rate_range, max_rate=max_rate
    )
    require_scoring(load, "--quality", given=load.quality)
    if max_rate and not load.slo:
        raise OptionError("--max-rate needs an objective", fix="give one, like --slo p99:50")
    if max_rate and repeat > 1:
        raise OptionError("--max-rate and --repeat exclude each other", fix="the search repeats what it finds")
    load.engine, load.precision = engine, precision
    besides = _besides(load, device=device, option=option, instances=instances, in_process=in_process, workers=workers)
    if "=" in workload:
        others = {
            "--concurrency-range": concurrency_range,
            "--request-rate-range": request_rate_range,
            "--max-rate": bool(max_rate),
            "--repeat": repeat > 1,
            "--in-process": in_process,
            "--model-name": load.model_name,
            "--device": device,
            "--workers": workers > 1,
            "--option": option,
            "--instances": instances,
        }
        raise typer.Exit(
            _mix(workload, load, besides, [flag for flag, given in others.items() if given], report=report, json=json)
        )
    # Everything is checked before a server is started.
    configs = [replace(resolve(load, model=workload, **point), command_options=besides) for point in points]
    settings = Settings.from_options(device, option or (), instances)
    if in_process and (concerns_a_server(load) or max_rate or workers > 1):
        raise OptionError("--in-process has no server", fix="leave out what is for a server, --max-rate and --workers")
    if load.quality and workers > 1:
        raise OptionError("--quality scores what one process has sent", fix="leave out --workers")
    given = bool(load.host)
    if max_rate:
        between = search_bounds(max_rate)
        with server_for(configs, given=given, settings=settings) as [config]:
            search = replace(config, scenario=search_load(load)).run_options() | {"max_rate": max_rate}
            del search["request_rate"]
            raise typer.Exit(_search(config, search_load(load), between, workers, search, json=json))
    target = (
        engines_for(configs[0], settings, quiet=json)
        if in_process
        else _served(configs[0], settings, given=given, workers=workers, quiet=json)
    )
    with target as measure:
        if request_rate_range:
            found = _curve(measure, configs, repeat, json=json)
            raise typer.Exit(int(ExitCode.worst(result["verdict"]["exit_code"] for result in found)))
        each = functools.partial(_reported, measure, quiet=json) if report else measure
        found = [each(replace(c, seed=c.seed + number)) for c in configs for number in range(repeat)]
    if json:
        directory.print_json(found[0] if len(found) == 1 else {"results": found})
    elif len(found) > 1:
        render_series(found)
    raise typer.Exit(int(ExitCode.worst(result["verdict"]["exit_code"] for result in found)))


@contextlib.contextmanager
def _served(config: LoadConfig, settings: Settings, *, given: bool, workers: int, quiet: bool) -> Iterator[Measure]:
    """A server, and what measures one run of it."""
    with server_for([config], given=given, settings=settings) as [served]:
        measure = functools.partial(drive, output=subprocess.DEVNULL) if quiet else drive_watched
        yield lambda config: measure(config.at(served.address), workers=workers)


def _curve(measure: Measure, configs: list[LoadConfig], repeat: int, *, json: bool) -> list[Result]:
    """Measure a range of rates, with the runs in one folder, and report it; its page is beside them."""
    folder = directory.new_directory(configs[0].out, f"{configs[0].model}-curve")
    found: list[Result] = []
    for config in configs:
        for number in range(repeat):
            below = folder / f"{len(found) + 1:02}-{config.scenario.rate:g}"
            below.mkdir()
            found.append(measure(replace(config, seed=config.seed + number, result_dir=below)))
    shape = curve(found)
    if json:
        directory.print_json({"results": found, "curve": shape})
    else:
        render_curve(found, shape)
    write_report(folder, quiet=json)
    return found


def _reported(measure: Measure, config: LoadConfig, *, quiet: bool) -> Result:
    """One run, with its page beside its result."""
    folder = directory.new_directory(config.out, config.model)
    result = measure(replace(config, result_dir=folder))
    write_report(folder, quiet=quiet)
    return result


def _besides(load: Namespace, **own: Any) -> dict[str, Any]:
    """What makes a run again besides its load: the command's own options, and that it had no --url."""
    own["workloads"] = [place for place in os.environ.get(WORKLOADS, "").split(os.pathsep) if place]
    own["models"] = folder if (folder := os.environ.get(MODELS, "")) and Path(folder).is_dir() else ""
    own["instances"] = str(own["instances"] or "")
    own["workers"] = str(own["workers"]) if own["workers"] > 1 else ""
    return own if load.host else {**own, "url": "", "protocol": load.protocol}


def _mix(text: str, load: Namespace, besides: dict[str, Any], others: list[str], *, report: bool, json: bool) -> int:
    """Drive a mix of workloads and report it; the exit code."""
    if others:
        raise OptionError(f"a mix has no {', '.join(others)}", fix=f"leave out {', '.join(others)}")
    shares = parse_mix(text)
    whole = {"workload": text, "request_rate": load.request_rate, "seed": load.seed}
    config = replace(resolve(load, model=next(iter(shares))), command_options={**besides, **whole})
    folder, result = run_mix(shares, config, given=bool(load.host), output=subprocess.DEVNULL, watched=not json)
    if json:
        directory.print_json(result)
    else:
        render_mix(result, stdout())
    note(f"result: {shown(folder)}")
    if report:
        write_report(folder, quiet=json)
    return int(result["verdict"]["exit_code"])


def _search(
    config: LoadConfig,
    at_rate: ConstantRate,
    between: tuple[float, float] | None,
    workers: int,
    options: dict[str, Any],
    *,
    json: bool,
) -> int:
    """Find the highest rate and report it; the exit code."""
    folder = directory.new_directory(config.out, f"{config.model}-max-rate")
    screen = Screen(f"{config.model}, {config.protocol}  |  the highest rate with {written(config.slo)}")
    with drawn_where_seen(screen, config, quiet=json) as drawing:
        drive = functools.partial(drive_captured, workers=workers, drawing=drawing)
        say = drawing.say if drawing else (lambda _: None) if json else note
        runs = RateRuns(config, at_rate, folder, drive, say=say, options=options)
        try:
            found = find_max_rate(runs, between)
        except KeyboardInterrupt:
            if (folder / directory.RESULT_FILE).exists():
                say(f"result: {shown(folder)}")
            raise
    result = write_max_rate(runs, found)
    if json:
        directory.print_json(result)
    else:
        render_max_rate(result, stdout())
        note(f"result: {shown(folder)}")
    write_report(folder, quiet=json)
    return int(result["verdict"]["exit_code"])


app = one_command(takes_own_models(run), cls=TakesDefaults)
