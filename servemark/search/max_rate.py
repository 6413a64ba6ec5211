"""Highest rate of a model with real runs: a closed-loop probe, the search, and one result for both.

Knows no command line.
"""

import contextlib
import functools
import itertools
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from loadgen.inputs.sources import samples_of
from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import scenario_of
from loadgen.measurement.probe import probe as first_look
from loadgen.sut.channel import Payload
from loadgen.targets.open import open_target
from servemark.campaign import Campaign
from servemark.documents.flags import options_of
from servemark.documents.load import AUTO, ClosedLoop, ConstantRate
from servemark.documents.request import RunRequest
from servemark.documents.saved_load import asked_and_answered
from servemark.errors import NoResultError, OptionError, ServerError
from servemark.figures.elsewhere import MAX_RATE
from servemark.figures.registry import count_of, value_of
from servemark.figures.value import Value
from servemark.output import note
from servemark.quantities import figure
from servemark.results import directory as results
from servemark.results.objectives import UNDECIDED, highest_percentile, latency_objective
from servemark.results.schema.details import VerdictOfRun
from servemark.results.schema.header import SCHEMA_VERSION, command
from servemark.results.schema.run import Result
from servemark.results.verdict import Kind, conclude, constraint
from servemark.runs.in_process import Measure
from servemark.search.points import Point, point_of
from servemark.search.posterior import (
    MAX_RUNS,
    START_SHARE,
    TOLERANCE,
    Bounds,
    MaxRate,
    interrupted,
    lowest_rate,
    requests_in_run,
    search,
)

PROBE_CONCURRENCY = 8
PROBE_S = 5.0
PROBE_WARMUP_S = 1.0
MAX_RUN_S = 120.0
"""Maximum measured time of a run at a low rate, which measures for longer than `--duration`."""
RUN_OVERHEAD_S = 3.0
"""Time of a run besides warm-up and measurement, for the estimate that is printed before the search."""
SETTLE_ATTEMPTS = 3

MAY_DIFFER = frozenset({"out", "data_root"})
"""Options that may differ when a campaign goes on."""


@dataclass
class RateRuns:
    """Runs of `config` at given rates, turns of a campaign; each has the next seed and a directory. `points` grows.

    `config` has the objective. `load` is the load of each run, except for its rate; its duration is the minimum,
    because a run is as long as the percentile needs at its rate. `say` gets a line about each run.
    """

    config: LoadConfig
    load: ConstantRate
    campaign: Campaign
    drive: Measure
    say: Callable[[str], None] = note
    points: list[Point] = field(default_factory=list)
    despite_busy: bool = False
    """True if the search goes on where other work disturbs its first runs."""
    request: RunRequest | None = None
    """The request that repeats the search; None: that of the run that represents it."""
    place: str = ""
    """Place of the directories, below the campaign's folder."""

    @property
    def folder(self) -> Path:
        """The folder of the search."""
        return self.campaign.folder / self.place

    @property
    def percentile(self) -> float:
        """Percentile of the objectives that needs the most requests."""
        return highest_percentile(self.config.slo) or 50.0

    @property
    def longest_s(self) -> float:
        """Longest measured time of a run."""
        return max(self.load.duration_s, MAX_RUN_S)

    @property
    def lowest(self) -> float:
        """Lowest rate at which a run of the longest duration has enough requests."""
        return lowest_rate(self.percentile, self.longest_s)

    def duration_s(self, rate: float) -> float:
        """Return the measured time of a run at this rate."""
        return max(self.load.duration_s, math.ceil(requests_in_run(self.percentile) / rate))

    def measure(self, rate: float) -> Point:
        """Make the next run. A run without a result is a point too; two in a row raise NoResultError."""
        number = len(self.points) + 1
        place = f"{number:02}-{rate:.6g}"
        point = self.campaign.turn(f"{self.place}{place}", functools.partial(self._run, rate, number, place), Point)
        self.points.append(point)
        return point

    def _run(self, rate: float, number: int, place: str) -> Point:
        slo = latency_objective(self.config.slo)
        directory = self.campaign.below(f"{self.place}{place}")
        load = msgspec.structs.replace(self.load, rate=rate, duration_s=self.duration_s(rate))
        run = replace(self.config.changed(load=load, seed=self.config.seed + number), result_dir=directory)
        asked = f"{figure(rate)}/s"
        try:
            result = self.drive(run)
            point, asked = point_of(result, directory.name), asked_and_answered(result) or asked
        except NoResultError as error:
            if self.points and self.points[-1].directory is None:
                raise
            if error.said:
                self.say(error.said)
            point = Point(rate, frozenset({Kind.COMPLETED}), objective=UNDECIDED)
        shown = "-" if point.latency_ms is None else f"{figure(point.latency_ms)} ms"
        self.say(f"run {number}: {asked}, {f'{slo.name} {shown}: ' if slo else ''}{point.words}")
        if not point.met:
            settled(self.config)
        return point


def identity(config: LoadConfig, **more: object) -> dict[str, object]:
    """Return what a journal holds of the request of a campaign's runs, and `more`, so that another one is refused."""
    flags = {name: value for name, value in options_of(config.request).items() if name not in MAY_DIFFER}
    return {"schema_version": SCHEMA_VERSION, **more, "flags": flags, "seed": config.seed}


def settled(config: LoadConfig) -> None:
    """Wait until a server has answered the requests that an overload left in its queue, by sending one more request.

    If the server does not answer, the next run's verdict says so.
    """
    for _ in range(SETTLE_ATTEMPTS):
        with contextlib.suppress(ServerError):
            target = open_target(config.changed(shared_memory="none"))
            # Not its payloads, which are a thousand requests made ahead.
            samples = itertools.islice(itertools.cycle(samples_of(config)), config.batch_size)
            request = Payload(target.encoder()(config.workload.request([*samples])))
            first_look(target, iter([request]), 1, least_s=0, timeout_s=config.limits.request_timeout_s)
            return


def find_max_rate(runs: RateRuns, between: tuple[float, float] | None = None) -> MaxRate:
    """Search for the highest rate, between two rates or around the rate that a short closed loop reaches.

    Raises OptionError if the server is too slow for a run to hold enough requests. An interrupted search writes its
    result so far.
    """
    if between and between[0] < runs.lowest:
        raise OptionError(
            f"at {between[0]:g}/s a run of {runs.longest_s:g} s has too few requests for p{runs.percentile:g}",
            fix=f"begin at {figure(runs.lowest)}/s, or raise --duration",
        )
    if between:
        bounds = Bounds(*between)
    else:
        reached = runs.campaign.turn(f"{runs.place}probe", functools.partial(_capacity, runs), float)
        bounds = Bounds.around(START_SHARE * reached, runs.lowest)
    length_s = runs.duration_s(bounds.start or bounds.lowest)
    most_s = MAX_RUNS * (length_s + scenario_of(runs.load).warmup_s + RUN_OVERHEAD_S)
    runs.say(
        f"at most {MAX_RUNS} runs of {length_s:g} s, about {most_s / 60:.0f} min if it needs all; "
        f"no rate below {figure(bounds.lowest)}/s"
    )
    try:
        return search(runs.measure, bounds, stop_when_busy=not runs.despite_busy)
    except KeyboardInterrupt:
        if any(point.directory for point in runs.points):
            write_max_rate(runs, interrupted(runs.points))
        raise


def _capacity(runs: RateRuns) -> float:
    """Measure the requests/s of a short closed loop: near the server's capacity, whatever the latency.

    Raises ServerError, and OptionError if the server is too slow for runs of any length.
    """
    directory = runs.campaign.below(f"{runs.place}probe")
    lengths = (min(PROBE_S, runs.load.duration_s), min(PROBE_WARMUP_S, scenario_of(runs.load).warmup_s))
    result = probe(runs.drive, replace(runs.config, result_dir=directory), PROBE_CONCURRENCY, *lengths)
    rate = value_of(result, "throughput.requests") or 0.0
    runs.say(f"probe: {figure(rate)} requests/s in a closed loop of {PROBE_CONCURRENCY}")
    if rate < runs.lowest:
        needed = requests_in_run(runs.percentile)
        raise OptionError(
            f"p{runs.percentile:g} needs {needed:,.0f} requests in a run; the server answers about {figure(rate)}/s",
            fix=f"--duration {needed / rate * 2:.0f}, or a lower percentile",
        )
    return rate


def probe(
    drive: Measure, config: LoadConfig, concurrency: int, duration_s: float, warmup_s: float | None = None
) -> Result:
    """Make a short closed loop without an objective; without a `warmup_s` its warm-up ends by itself.

    Raises ServerError if no request is answered.
    """
    load = ClosedLoop(concurrency=concurrency, duration_s=duration_s, warmup=AUTO if warmup_s is None else warmup_s)
    result = drive(config.changed(load=load, slo=""))
    if not count_of(result, "requests.answered"):
        messages = result["details"]["errors"]["messages"].values()
        first = next((texts[0] for texts in messages if texts), "none in time")
        raise ServerError(f"{config.model} answered no request of a first closed loop: {first}")
    return result


def write_max_rate(runs: RateRuns, found: MaxRate) -> Result:
    """Write the search's result: that of the run that represents it, and every point that was tried.

    The met run nearest to the rate represents the search. If no rate was met, the run at the lowest rate does, and its
    verdict says why.
    """
    point = found.best or min((p for p in found.points if p.directory), key=lambda p: p.rate)
    folder = runs.folder
    run = results.read_run(folder / str(point.directory))
    asked, resolved = run["request"], run["resolved"]
    if runs.request is not None:
        asked, resolved = msgspec.to_builtins(runs.request), {**resolved, "rate": point.rate}
    interval = found.interval and (found.interval[0], found.interval[1])
    rate = Value.unknown(found.reason) if found.rate is None else Value(found.rate, interval)
    result: Result = {
        **run,
        "request": asked,
        "resolved": resolved,
        "command": command(),
        "verdict": _verdict(found, run["verdict"]),
        "figures": {**run["figures"], MAX_RATE.tag: rate.to_dict(MAX_RATE.unit)},
        "max_rate": found.to_dict(),
        "partial": found.bottleneck == "interrupted",
    }
    histograms = folder / str(point.directory) / results.HISTOGRAM_FILE
    if histograms.exists():
        shutil.copyfile(histograms, folder / results.HISTOGRAM_FILE)
    results.write(folder, result)
    return result


def _verdict(found: MaxRate, run: VerdictOfRun) -> VerdictOfRun:
    """Extend the run's verdict by the constraint that the search found the server's limit.

    A server that meets the objective at no rate has its answer: the run at the lowest rate, which missed it.
    """
    if found.best is None and found.bottleneck == "server":
        return run
    half = (found.interval[1] / found.interval[0]) ** 0.5 - 1 if found.interval and found.interval[1] else None
    unit = "of the rate to both sides: its 95 % interval"
    searched = constraint(Kind.MAX_RATE, found.confirmed, half, TOLERANCE, unit, found.reason)
    return conclude([*run["constraints"], searched], run["objectives"], run["skipped"])
