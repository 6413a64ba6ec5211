"""`servemark run`: serve where nothing is served yet, drive with the task's locustfile, report."""

import contextlib
import functools
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from loadgen.evaluation.mix import parse_mix, requests_of
from loadgen.load.load_config import LoadConfig
from servemark import interrupts
from servemark.campaign import Campaign
from servemark.cli._load import resolved
from servemark.cli._report import conclude, present, write_report
from servemark.documents.commands.measure import Run
from servemark.documents.load import ConstantRate, MaxRate
from servemark.documents.request import RunRequest, changed
from servemark.errors import ExitCode, NoResultError, OptionError, ResultError
from servemark.output import note
from servemark.paths import resumed, shown
from servemark.quantities import duration_text
from servemark.repository.entry import digest
from servemark.results import directory
from servemark.results.schema.run import Result
from servemark.runs.in_process import Measure, engines_for
from servemark.runs.locust_process import drive, drive_into, read_result
from servemark.runs.mix import run_mix
from servemark.runs.server import served_by_hand, server_for
from servemark.search.max_rate import RUN_OVERHEAD_S, RateRuns, find_max_rate, identity, write_max_rate
from servemark.search.points import busy, curve
from servemark.views.live import Drawing, Screen, drawn_where_seen, ended, progress, report
from servemark.workload.registry import own_files


def run(options: Run) -> int:
    """Make the run, or the runs, that are asked for; the exit code."""
    requests = [options.request(options.workload, **own_files(), **point) for point in options.points()]
    request = requests[0]
    options.require_fit(request)
    options.require_scoring(given=request.objectives.quality)
    if request.live.explain:
        from servemark.cli.explain import explained_run  # imports kernels and comparisons

        if len(requests) > 1 or options.repeat > 1:
            raise OptionError("--explain is for one run", fix="leave out --repeat and ranges")
        return explained_run(request, options)
    if "=" in options.workload:
        return _mix(request, options)
    with served_by_hand(request) as url:
        return _measured([changed(each, url=url) for each in requests] if url else requests, options)


def _measured(requests: Sequence[RunRequest], options: Run) -> int:
    """Run what is asked for and report it; the exit code. Everything is checked before a server is started."""
    json, request, search = options.json, requests[0], requests[0].load
    if isinstance(search, MaxRate):
        with server_for([resolved(changed(request, load=search.at(1.0)))]) as [config]:
            return _search(config, request, search, options)
    configs = [resolved(each) for each in requests]
    if len(configs) * options.repeat > 1:  # a single one shows its time while it goes on
        seconds = options.repeat * sum(each.duration_s + each.warmup_s + RUN_OVERHEAD_S for each in configs)
        note(f"{len(configs) * options.repeat} runs: about {duration_text(seconds)}")
    target = (
        engines_for(configs[0], quiet=json, on_progress=progress, on_end=ended)
        if request.server.in_process
        else _served(configs[0], workers=request.limits.workers, quiet=json)
    )
    with target as measure:
        if options.request_rate_range:
            found = _curve(measure, configs, options)
            return int(ExitCode.worst(result["verdict"]["exit_code"] for result in found))
        each = functools.partial(_reported, measure) if options.report else measure
        found = [each(c.changed(seed=c.seed + number)) for c in configs for number in range(options.repeat)]
    if json or len(found) > 1:  # drive_watched has shown a single one
        present(found[0] if len(found) == 1 else {"results": found}, json=json)
    return int(ExitCode.worst(result["verdict"]["exit_code"] for result in found))


@contextlib.contextmanager
def _served(config: LoadConfig, *, workers: int, quiet: bool) -> Iterator[Measure]:
    """A server, and what measures one run of it; each cold start has a server of its own."""
    measure = functools.partial(drive if quiet else drive_watched, workers=workers)

    def cold(config: LoadConfig) -> Result:
        with server_for([config]) as [served]:
            return measure(served)

    if config.server.cold_start:
        yield cold
        return
    with server_for([config]) as [served]:
        yield lambda config: measure(config.at(served.address))


def _curve(measure: Measure, configs: list[LoadConfig], options: Run) -> list[Result]:
    """Measure a range of rates, with the runs in one folder, and report it; its page is beside them."""
    folder = directory.new_directory(configs[0].out, f"{configs[0].model}-curve")
    found: list[Result] = []
    for config in configs:
        for number in range(options.repeat):
            below = folder / f"{len(found) + 1:02}-{config.scenario.rate:g}"
            below.mkdir()
            found.append(measure(replace(config.changed(seed=config.seed + number), result_dir=below)))
    present({"results": found, "curve": curve(found)}, json=options.json)
    write_report(folder)
    return found


def _reported(measure: Measure, config: LoadConfig) -> Result:
    """One run, with its page beside its result."""
    folder = directory.new_directory(config.out, config.model)
    result = measure(replace(config, result_dir=folder))
    write_report(folder)
    return result


def _mix(request: RunRequest, options: Run) -> int:
    """Drive a mix of workloads and report it; the exit code."""
    shares = parse_mix(request.workload)
    parts = [resolved(changed(request, workload=name, **own)) for name, own in map(requests_of, shares)]
    config = replace(parts[0], request=request)

    def observed(load: ConstantRate) -> AbstractContextManager[Drawing | None]:
        in_all = f"open loop, {load.distribution.value} {load.rate:g} requests/s in all"
        return drawing_of(f"mix of {len(shares)}, {config.protocol}  |  {in_all}", config, quiet=options.json)

    folder, result = run_mix(shares, config, output=subprocess.DEVNULL, observed=observed)
    conclude(folder, result, options)
    return int(result["verdict"]["exit_code"])


def _search(config: LoadConfig, request: RunRequest, search: MaxRate, options: Run) -> int:
    """Find the highest rate and report it; the exit code."""
    folder = resumed(options.resume) or directory.new_directory(config.out, f"{config.model}-max-rate")
    artifact = None if request.server.url else digest(config.entry.version)
    asked = identity(config, kind="max-rate", bounds=search.bounds, **{"the model": artifact})
    title = f"{config.model}, {config.protocol}  |  the highest rate with {config.request.objectives.slo}"
    try:
        with (
            Campaign(folder, asked, resume=bool(options.resume)) as campaign,
            drawing_of(title, config, quiet=options.json) as drawing,
        ):
            measure = functools.partial(drive, workers=request.limits.workers, observer=drawing)
            say = drawing.say if drawing else note
            runs = RateRuns(
                config, search.at(1.0), campaign, measure, say=say, despite_busy=search.despite_busy, request=request
            )
            found = find_max_rate(runs, None if isinstance(search.bounds, str) else search.bounds)
    except KeyboardInterrupt:
        if (folder / directory.RESULT_FILE).exists():
            _show_search(directory.read_run(folder), folder, json=options.json)
        raise
    result = write_max_rate(runs, found)
    _show_search(result, folder, json=options.json)
    if busy(found.points) and not search.despite_busy:
        note("stop the other work, or search on with --despite-busy")
    write_report(folder)
    return int(result["verdict"]["exit_code"])


def _show_search(result: Result, folder: Path, *, json: bool) -> None:
    """Print a search's answer, also of one that was cut short."""
    present(result, json=json)
    note(f"result: {shown(folder)}")


def drawing_of(title: str, config: LoadConfig, *, quiet: bool = False) -> AbstractContextManager[Drawing | None]:
    """Draw the runs of a configuration below a title where somebody looks, else yield None."""
    return drawn_where_seen(Screen(title), quiet=quiet, grace_s=config.live.metrics_grace_s)


def drive_watched(config: LoadConfig, *, workers: int = 1) -> Result:
    """Drive a run and report it; this process draws how it stands where somebody looks. Raises as `drive`."""
    folder = config.result_dir or directory.new_directory(config.out, config.model)
    config = replace(config, result_dir=folder)
    drawing = None
    try:
        with drawing_of(f"{config.model}, {config.protocol}", config) as drawing:
            words = drawing.words if drawing else None
            result = drive_into(config, words, words, workers=workers, observer=drawing)
    except KeyboardInterrupt:
        if drawing:
            with contextlib.suppress(NoResultError, ResultError):
                report(folder, read_result(folder, interrupts.EXIT_CODE))
        raise
    if drawing:
        report(folder, result)
    return result
