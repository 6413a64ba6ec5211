"""`servemark run`: serve where nothing is served yet, drive with the task's locustfile, report."""

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from loadgen.load.load_config import LoadConfig
from servemark.cli._load_flags import LoadFlags, takes_load
from servemark.cli._options import (
    DEFAULT_ENGINE,
    DEFAULT_PRECISION,
    Device,
    Engine,
    EngineOption,
    Instances,
    Json,
    Precision,
)
from servemark.cli._ranges import load_points
from servemark.errors import ExitCode, OptionError
from servemark.max_rate.curve import curve
from servemark.max_rate.runs import RateRuns, find, write
from servemark.output import note, stdout
from servemark.report.html.curve import page
from servemark.report.terminal.max_rate import render_max_rate
from servemark.report.terminal.mix import render_mix
from servemark.report.terminal.series import render_curve, render_series
from servemark.repository.model_config import Settings
from servemark.results import directory
from servemark.runs.in_process import Measure, engines_for
from servemark.runs.locust_process import check, drive, server_for
from servemark.runs.mix import run_mix


@takes_load()
def run(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="Workload, or a mix like ranking=0.7,ncf=0.3.")],
    engine: Engine = DEFAULT_ENGINE,
    precision: Precision = DEFAULT_PRECISION,
    device: Device = "",
    option: EngineOption = None,
    instances: Instances = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="No server: the engine in this process, the baseline of serving.")
    ] = False,
    max_rate: Annotated[
        bool, typer.Option("--max-rate", help="Search for the highest rate that meets --slo; many runs.")
    ] = False,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, help="Processes that send the load, each a share of it.")
    ] = 1,
    repeat: Annotated[int, typer.Option(metavar="N", min=1, help="Repeat each run, with the next seed.")] = 1,
    *,
    load: LoadFlags,
    json: Json = False,
) -> None:
    """Measure one workload under load and judge the run.

    Example: servemark run resnet50 --request-rate 10 --slo p90:200
    """
    points = load_points(load, max_rate=max_rate)
    if max_rate and not load.slo:
        raise OptionError("--max-rate needs an objective", fix="give one, like --slo p99:50")
    if max_rate and repeat > 1:
        raise OptionError("--max-rate and --repeat exclude each other", fix="the search repeats what it finds")
    flags = load.for_locust(model=workload, engine=engine, precision=precision)
    if workers > 1:
        flags["processes"] = workers
    if "=" in workload:
        others = {
            "--repeat": repeat > 1,
            "--in-process": in_process,
            "--model-name": load.model_name,
            "--device": device,
            "--workers": workers > 1,
        }
        others |= {"--option": option, "--instances": instances}
        raise typer.Exit(
            _mix(workload, flags, points, [flag for flag, given in others.items() if given], load, json=json)
        )
    # Everything is checked before a server is started.
    config, *_ = [check(flags | point, load.seed, load.url) for point in points]
    settings = Settings.from_options(device, option or (), instances)
    if in_process and (load.concerns_a_server or max_rate or workers > 1):
        raise OptionError("--in-process has no server", fix="leave out what is for a server, --max-rate and --workers")
    if max_rate:
        with server_for(config, load.url, settings) as address:
            raise typer.Exit(_search(config, flags | {"host": address}, load.seed, json=json))
    target = (
        engines_for(config, settings, quiet=json) if in_process else _served(config, load.url, settings, quiet=json)
    )
    with target as measure:
        runs = [flags | point | {"seed": load.seed + number} for point in points for number in range(repeat)]
        found = [measure(arguments) for arguments in runs]
    if load.request_rate_range:
        _show_curve(config, found, json=json)
    elif json:
        directory.print_json(found[0] if len(found) == 1 else {"results": found})
    elif len(found) > 1:
        render_series(found)
    codes = [result["verdict"]["exit_code"] for result in found]
    raise typer.Exit(int(ExitCode.worst(codes)))


@contextlib.contextmanager
def _served(config: LoadConfig, url: str, settings: Settings, *, quiet: bool) -> Iterator[Measure]:
    """A server, and what measures one run of it."""
    with server_for(config, url, settings) as address:
        yield lambda flags: drive(config, {**flags, "host": address}, output=sys.stderr if quiet else None)


def _show_curve(config: LoadConfig, found: list[dict[str, Any]], *, json: bool) -> None:
    """Report a range of rates, and write its curve where plotly is installed."""
    shape = curve(found)
    if json:
        directory.print_json({"results": found, "curve": shape})
    else:
        render_curve(found, shape)
    if importlib.util.find_spec("plotly") is None:
        note("no curve.html without plotly: pip install 'servemark[plots]'")
        return
    folder = directory.new_directory(config.out, f"{config.model}-curve")
    path = folder / "curve.html"
    directory.write_atomically(path, page(shape, config.model))
    note(f"curve: {os.path.relpath(path)}")


def _mix(
    text: str,
    flags: dict[str, Any],
    points: list[dict[str, Any]],
    others: list[str],
    load: LoadFlags,
    *,
    json: bool,
) -> int:
    """Drive a mix of workloads and report it; the exit code."""
    if others:
        raise OptionError(f"a mix has no {', '.join(others)}", fix=f"leave out {', '.join(others)}")
    if len(points) > 1 or "request_rate" not in points[0]:
        raise OptionError("a mix has Poisson arrivals at one rate", fix="--request-rate R")
    folder, result = run_mix(text, flags | points[0], seed=load.seed, url=load.url, output=subprocess.DEVNULL)
    if json:
        directory.print_json(result)
    else:
        render_mix(result, stdout())
    note(f"result: {os.path.relpath(folder)}")
    return int(result["verdict"]["exit_code"])


def _search(config: LoadConfig, flags: dict[str, Any], seed: int, *, json: bool) -> int:
    """Find the highest rate and report it; the exit code."""
    folder = directory.new_directory(config.out, f"{config.model}-max-rate")
    # Each run's own report is in its directory.
    found = find(RateRuns(config, flags, seed, folder))
    result = write(folder, found)
    if json:
        directory.print_json(result)
    else:
        render_max_rate(result, stdout())
    note(f"result: {os.path.relpath(folder)}")
    return int(result["verdict"]["exit_code"])
