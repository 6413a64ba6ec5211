"""The highest rate of a model: a closed-loop probe, the search, and one result for all of it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import ClosedLoop, ConstantRate
from servemark.errors import OptionError, ServerError
from servemark.max_rate.search import START_SHARE, MaxRate, Point, interrupted, lowest_rate, point_of, search
from servemark.output import note
from servemark.results import directory as results
from servemark.results.objectives import highest_percentile, latency_objective
from servemark.results.schema.header import command
from servemark.results.schema.run import Result, VerdictOfRun
from servemark.results.verdict import Constraint, Verdict

PROBE_CONCURRENCY = 8
PROBE_S = 5.0
PROBE_WARMUP_S = 1.0

Drive = Callable[[LoadConfig], Result]
"""Makes a run whose result directory is there; its own report is in it. Raises NoResultError."""


@dataclass
class RateRuns:
    """Runs of `config` at given rates, each with the next seed and a directory of its own in `folder`; `points` grows.

    `config` has the objective; `load` is that of each run, but for its rate.
    """

    config: LoadConfig
    load: ConstantRate
    folder: Path
    drive: Drive
    points: list[Point] = field(default_factory=list)

    def measure(self, rate: float) -> Point:
        """Make the next run. Raises NoResultError."""
        slo = latency_objective(self.config.slo)
        number = len(self.points) + 1
        directory = self.folder / f"{number:02}-{rate:.6g}"
        directory.mkdir()
        load = replace(self.load, request_rate=rate)
        run = replace(self.config, scenario=load, seed=self.config.seed + number, result_dir=directory)
        point = point_of(self.drive(run), directory.name)
        shown = "-" if point.latency_ms is None else f"{point.latency_ms:,.3g} ms"
        note(f"run {number}: {rate:,.4g}/s, {f'{slo.name} {shown}: ' if slo else ''}{point.words}")
        self.points.append(point)
        return point


def find_max_rate(runs: RateRuns) -> MaxRate:
    """Search for the highest rate.

    Raises OptionError where the server is too slow for a run to hold enough requests. A search that is cut short writes
    what it found so far.
    """
    percentile, duration_s = highest_percentile(runs.config.slo) or 50.0, runs.load.duration_s
    capacity = _capacity(runs)
    lowest = lowest_rate(percentile, duration_s)
    if capacity < lowest:
        raise OptionError(
            f"p{percentile:g} needs {lowest * duration_s:,.0f} requests in a run, and the server "
            f"answers about {capacity:,.3g}/s",
            fix=f"--duration {lowest * duration_s / capacity * 2:.0f}, or a lower percentile",
        )
    try:
        return search(runs.measure, START_SHARE * capacity, lowest=lowest)
    except KeyboardInterrupt:
        if runs.points:
            write_max_rate(runs.folder, interrupted(runs.points))
        raise


def _capacity(runs: RateRuns) -> float:
    """Requests/s of a short closed loop: near what the server can do, whatever the latency. Raises ServerError."""
    directory = runs.folder / "probe"
    directory.mkdir()
    lengths = (min(PROBE_S, runs.load.duration_s), min(PROBE_WARMUP_S, runs.load.warmup_s))
    result = probe(runs.drive, replace(runs.config, result_dir=directory), PROBE_CONCURRENCY, *lengths)
    rate = result["metrics"]["throughput"]["requests_per_s"] or 0.0
    note(f"probe: {rate:,.4g} requests/s in a closed loop of {PROBE_CONCURRENCY}")
    return rate


def probe(drive: Drive, config: LoadConfig, concurrency: int, duration_s: float, warmup_s: float = 0.0) -> Result:
    """The result of a short closed loop without an objective. Raises ServerError where it answers no request."""
    load = ClosedLoop(concurrency=concurrency, duration_s=duration_s, warmup_s=warmup_s)
    result = drive(replace(config, scenario=load, slo=()))
    if not result["metrics"]["latency_ms"]["count"]:
        messages = result["metrics"]["errors"]["messages"].values()
        first = next((texts[0] for texts in messages if texts), "none in time")
        raise ServerError(f"{config.model} answered no request of a first closed loop: {first}")
    return result


def write_max_rate(folder: Path, found: MaxRate) -> Result:
    """Write the search's result: that of the run which stands for it, and every point that was tried.

    Where no rate was met, the run at the lowest rate stands for it, and its verdict says why.
    """
    point = found.best or min(found.points, key=lambda p: p.rate)
    run = point.result
    assert run is not None
    result: Result = {
        **run,
        "command": command(),
        "scenario": {**run["scenario"], "mode": "max-rate"},
        "verdict": _verdict(found, run["verdict"]),
        "max_rate": found.to_dict(),
        "partial": found.limited_by == "interrupted",
    }
    histograms = folder / str(point.directory) / results.HISTOGRAM_FILE
    if histograms.exists():
        shutil.copyfile(histograms, folder / results.HISTOGRAM_FILE)
    results.write(folder, result)
    return result


def _verdict(found: MaxRate, run: VerdictOfRun) -> VerdictOfRun:
    """The run's verdict, and whether the search found the server's limit."""
    if found.best is None:
        return run
    unit = "requests/s not met"
    constraints = [
        *(Constraint(**constraint) for constraint in run["constraints"]),
        Constraint("max_rate", found.confirmed, found.rate, found.above, unit, found.reason),
    ]
    return Verdict(constraints, run["objectives"], run["not_judged"]).to_dict()
