"""`servemark run --max-rate`: a closed-loop probe, the search, and one result for all of it."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadgen.load.load_config import LoadConfig
from servemark.errors import ExitCode, OptionError, ServerError
from servemark.max_rate.search import START_SHARE, MaxRate, Point, interrupted, lowest_rate, point_of, search
from servemark.output import note
from servemark.results import directory as results
from servemark.runs.locust_process import drive

PROBE_CONCURRENCY = 8
PROBE_S = 5.0
PROBE_WARMUP_S = 1.0


def aloud(config: LoadConfig, flags: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Drive a run whose progress is shown; its own report is in its directory."""
    return drive(config, flags, directory=directory, output=subprocess.DEVNULL)


@dataclass
class RateRuns:
    """Runs of a task's locustfile at given rates, each with the next seed and a directory of its own in `folder`.

    `flags` are the locustfile's without its load, `host` among them; `points` grows.
    """

    config: LoadConfig
    flags: Mapping[str, Any]
    seed: int
    folder: Path
    run: Callable[[LoadConfig, Mapping[str, Any], Path], dict[str, Any]] = aloud
    points: list[Point] = field(default_factory=list)

    def measure(self, rate: float) -> Point:
        """Make the next run. Raises typer.Exit where it has no result."""
        slo = self.config.slo
        assert slo is not None
        number = len(self.points) + 1
        directory = self.folder / f"{number:02}-{rate:.6g}"
        directory.mkdir()
        arguments = {**self.flags, "request_rate": rate, "seed": self.seed + number}
        point = point_of(self.run(self.config, arguments, directory), directory.name)
        shown = "-" if point.latency_ms is None else f"{point.latency_ms:,.3g} ms"
        verdict = "VALID" if point.valid else f"INVALID ({', '.join(sorted(point.failed))})"
        note(f"run {number}: {rate:,.4g}/s, p{slo.percentile:g} {shown}: {verdict}")
        self.points.append(point)
        return point


def find(runs: RateRuns) -> MaxRate:
    """Search for the highest rate.

    Raises OptionError where the server is too slow for a run to hold enough requests. A search that is cut short writes
    what it found so far.
    """
    config, slo = runs.config, runs.config.slo
    assert slo is not None
    capacity = _probe(runs)
    lowest = lowest_rate(slo.percentile, config.duration_s)
    if capacity < lowest:
        raise OptionError(
            f"p{slo.percentile:g} needs {lowest * config.duration_s:,.0f} requests in a run, and the server "
            f"answers about {capacity:,.3g}/s",
            fix=f"--duration {lowest * config.duration_s / capacity * 2:.0f}, or a lower percentile",
        )
    try:
        return search(runs.measure, START_SHARE * capacity, lowest=lowest)
    except KeyboardInterrupt:
        if runs.points:
            write(runs.folder, interrupted(runs.points))
        raise


def _probe(runs: RateRuns) -> float:
    """Requests/s of a short closed loop: near what the server can do, whatever the latency."""
    config, directory = runs.config, runs.folder / "probe"
    directory.mkdir()
    short = {
        "num_users": PROBE_CONCURRENCY,
        "duration": min(PROBE_S, config.duration_s),
        "warmup": min(PROBE_WARMUP_S, config.warmup_s),
        "slo": "",
        "seed": runs.seed,
    }
    result = runs.run(config, {**runs.flags, **short}, directory)
    rate = float(result["metrics"]["throughput"]["requests_per_s"])
    if not rate:
        errors = result["metrics"]["errors"]["by_kind"]
        raise ServerError(f"the server answered no request of the probe ({errors or 'none in time'})")
    note(f"probe: {rate:,.4g} requests/s in a closed loop of {PROBE_CONCURRENCY}")
    return rate


def write(folder: Path, found: MaxRate) -> dict[str, Any]:
    """Write the search's result: that of the run which stands for it, and every point that was tried.

    Where no rate was met, the run at the lowest rate stands for it, and its verdict says why.
    """
    point = found.best or min(found.points, key=lambda p: p.rate)
    result = {
        **point.result,
        "command": sys.argv,
        "scenario": {**point.result["scenario"], "mode": "max-rate"},
        "verdict": _verdict(found, point.result["verdict"]),
        "max_rate": found.to_dict(),
        "partial": found.limited_by == "interrupted",
    }
    histograms = folder / str(point.directory) / results.HISTOGRAM_FILE
    if histograms.exists():
        shutil.copyfile(histograms, folder / results.HISTOGRAM_FILE)
    results.write(folder, result)
    return result


def _verdict(found: MaxRate, run: Mapping[str, Any]) -> dict[str, Any]:
    """The run's verdict, and whether the search found the server's limit."""
    if found.best is None:
        return dict(run)
    constraint = {
        "name": "max_rate",
        "ok": found.confirmed,
        "value": found.rate,
        "limit": found.above,
        "unit": "requests/s not met",
        "remedy": found.reason,
    }
    code = ExitCode.VALID if found.confirmed else ExitCode.INVALID
    constraints = [*run["constraints"], constraint]
    return {**run, "valid": found.confirmed, "exit_code": int(code), "constraints": constraints}
