"""`servemark run --max-rate`: what it writes, shows and exits with; the runs themselves are real in the slow test."""

import copy
import functools
import json
import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from loadgen.load.load_config import LoadConfig
from servemark.cli import run as command
from servemark.errors import NoResultError
from servemark.figures.registry import value_of
from servemark.results import directory as results
from servemark.runs.locust_process import Observer
from servemark.search.max_rate import settled
from servemark.workload import get
from tests.support import load_config
from tests.support.command_line import Done, Servemark
from tests.support.locust_run import Result, accounted, server_of
from tests.support.measured import evenly, load_result
from tests.support.results import NO_FIGURE, histogram_of, objective_of

TINY = "ranking_tiny"
CAPACITY = 400.0
SLO = ("--slo", "p90:50")


def histogram_at(rate: float) -> str:
    """One sample, so that each rate has its own."""
    return histogram_of(np.array([rate])).encode()


class Drive:
    """Stands for `drive`: one result, its figures those of a server that meets every rate up to `limit`."""

    def __init__(self, limit: float, late_above: float = 1e9) -> None:
        self.limit, self.late_above = limit, late_above
        self.made: list[LoadConfig] = []

    def __call__(self, config: LoadConfig, *, workers: int, observer: Observer | None = None) -> Result:  # noqa: ARG002
        self.made.append(config)
        result = copy.deepcopy(template())
        if config.concurrency:
            result["figures"]["throughput.requests"]["value"] = CAPACITY
            return result
        rate, directory = config.scenario.rate, config.result_dir
        assert directory
        late, objective = rate > self.late_above, "missed" if rate > self.limit else "met"
        result["request"]["load"] = msgspec.to_builtins(config.scenario.load)
        result["verdict"]["constraints"] = [
            {**NO_FIGURE, "name": name, "ok": not late or name != "schedule_delay_p99", "remedy": ""}
            for name in ("schedule_delay_p99", "client_cpu", "steady_state")
        ]
        result["verdict"] |= {"valid": not late, "exit_code": 2 if late else 4 if objective == "missed" else 0}
        over = min(round(100 * math.exp(20 * (rate / self.limit - 1))), 1000) if self.limit else 1000
        shown = {"confidence": 0.99, "requests": 1000, "over": over, "holds": False, "more_requests": 0}
        judged = objective_of(objective, value=rate) | {"percentile": 90.0, "shown": shown}
        result["verdict"] |= {"objective": objective, "objectives": [judged]}
        result["bottleneck"] = {"by": "generator" if late else "server", "evidence": ""}
        results.write(directory, result, {"latency_us": histogram_at(rate)})
        return result


@functools.cache
def template() -> Result:
    """One result with an objective."""
    return load_result(("--request-rate", "100", "--duration", "0.3", "--warmup", "0", *SLO), evenly(100, 0.3, 0.02))


Search = Callable[..., Done]


@pytest.fixture
def search(servemark: Servemark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Search:
    """The command with `drive` in the place of real runs."""

    def searched(drive: Drive, *flags: str) -> Done:
        monkeypatch.setattr(command, "drive", drive)
        line = ["run", TINY, "-u", "localhost:1", *SLO, "--out", str(tmp_path)]
        return servemark(*line, *(flags if "--max-rate" in flags else ["--max-rate", *flags]))

    return searched


def test_the_result_is_that_of_the_run_nearest_to_the_rate(search: Search, tmp_path: Path) -> None:
    drive = Drive(limit=350.0)
    code, out, err = search(drive, "--seed", "7")
    [folder] = tmp_path.iterdir()
    document = results.read(folder)
    assert code == document["verdict"]["exit_code"] == 0
    assert (document["kind"], document["request"]["load"]["kind"]) == ("load", "max-rate")
    found = document["max_rate"]
    assert found["rate"] == pytest.approx(350, rel=0.05)
    assert found["ci95"][0] < found["rate"] < found["ci95"][1]
    assert (found["confirmed"], found["bottleneck"]) == (True, "server")
    met = [point["rate"] for point in found["points"] if point["met"]]
    stands = document["resolved"]["rate"]
    assert stands == min(met, key=lambda rate: abs(math.log(rate / found["rate"])))
    # a directory for the probe and for each point, whose result is the point's
    assert {d.name for d in folder.iterdir() if d.is_dir()} == {"probe", *(p["directory"] for p in found["points"])}
    for point in found["points"]:
        assert results.read(folder / point["directory"])["request"]["load"]["rate"] == point["rate"]
    assert results.read_histograms(folder)["latency_us"] == histogram_at(stands)
    # every run has a schedule of its own
    assert [config.seed for config in drive.made] == list(range(7, 7 + len(drive.made)))
    assert drive.made[0].slo == ()
    assert "probe: 400 requests/s" in err
    assert "at most 24 runs of 15 s, about 8 min if it needs all; no rate below 3.20/s" in err
    assert "p90 320 ms: VALID, MET" in next(line for line in err.splitlines() if line.startswith("run 1: ")), err
    low, high = (f"{bound:,.4g}" for bound in found["ci95"])
    assert f"highest rate with p90:50: {found['rate']:,.4g} requests/s (95 % interval {low} to {high}); met in " in out


def test_with_json_there_is_nothing_else(search: Search, tmp_path: Path) -> None:
    _, out, err = search(Drive(limit=350.0), "--json")
    assert json.loads(out) == results.read(next(tmp_path.iterdir()))
    assert err == ""


def test_its_page_shows_each_run_the_objective_and_the_answer(search: Search, tmp_path: Path) -> None:
    _, _, err = search(Drive(limit=350.0))
    [folder] = tmp_path.iterdir()
    page = (folder / "report.html").read_text()
    assert "report.html" in err
    found = results.read(folder)["max_rate"]
    for number, point in enumerate(found["points"], 1):
        assert f"run {number}: " in page
        assert f"/s; VALID, {point['objective'].upper()}" in page
    assert "objective p90 50 ms" in page
    assert f"highest rate with p90:50: {found['rate']:,.4g} requests/s" in page
    assert "--max-rate" in page


def test_bounds_take_the_place_of_the_probe(search: Search, tmp_path: Path) -> None:
    drive = Drive(limit=350.0)
    code, out, _ = search(drive, "--max-rate", "100:0.3k")
    assert code == 2
    assert "at least 300 requests/s; 300/s is the highest that was asked for" in out
    assert all(config.scenario.rate for config in drive.made)
    [folder] = tmp_path.iterdir()
    assert results.read(folder)["max_rate"]["bottleneck"] == "range"


@pytest.mark.parametrize("bounds", ["5", "5:", "9:5", "0:5", "1:2:3", "7:x"])
def test_bounds_that_are_none_are_refused(search: Search, bounds: str) -> None:
    code, _, err = search(Drive(limit=350.0), "--max-rate", bounds)
    assert code == 3
    assert "--max-rate" in err
    code, _, err = search(Drive(limit=350.0), "--max-rate", "0.5:50")
    assert code == 3
    assert "at 0.5/s a run of 120 s has too few requests for p90" in err


def test_a_generator_that_limits_makes_the_search_invalid(search: Search, tmp_path: Path) -> None:
    """It goes down from the first rates, at which the generator was late, to one at which it was not."""
    code, out, _ = search(Drive(limit=1000, late_above=100))
    assert code == 2
    assert "highest rate with p90:50: at least " in out
    assert "; at higher rates the generator was late, so the server's own limit is not known; met " in out
    [folder] = tmp_path.iterdir()
    document = results.read(folder)
    assert 85 < document["max_rate"]["rate"] <= 100
    assert document["verdict"]["valid"] is False
    assert [c["name"] for c in document["verdict"]["constraints"] if not c["ok"]] == ["max_rate"]


def test_a_run_is_as_long_as_the_percentile_needs(search: Search) -> None:
    drive = Drive(limit=20.0)
    search(drive, "--duration", "2")
    for config in drive.made[1:]:
        assert config.scenario.duration_s == max(2, math.ceil(140 / config.scenario.rate))
    assert max(config.scenario.duration_s for config in drive.made) > 6


def test_a_run_without_a_result_is_too_high_a_rate_but_two_in_a_row_are_an_error(
    search: Search, tmp_path: Path
) -> None:
    class Lost(Drive):
        def __call__(self, config: LoadConfig, *, workers: int, observer: Observer | None = None) -> Result:
            if config.scenario.rate and config.scenario.rate > 2 * self.limit:
                raise NoResultError(2)
            return super().__call__(config, workers=workers, observer=observer)

    code, _, err = search(Lost(limit=90.0), "--max-rate", "50:800")
    assert code == 0
    assert "run 1: 200/s, p90 -: INVALID (completed), UNDECIDED" in err
    [folder] = tmp_path.iterdir()
    assert results.read(folder)["max_rate"]["rate"] == pytest.approx(90, rel=0.05)
    assert search(Lost(limit=1.0), "--max-rate", "50:800")[0] == 2


def test_one_request_tells_when_an_overloads_queue_is_empty() -> None:
    with server_of(get(TINY)) as server:
        settled(load_config.config(TINY, "--url", server.url, "--concurrency", "4", "--batch-size", "2"))
        [request] = server.requests()
    assert (request["kind"], request["batch"]) == ("ok", 2)


def test_an_objective_that_no_rate_meets_has_its_own_exit_code(search: Search, tmp_path: Path) -> None:
    code, out, _ = search(Drive(limit=0))
    assert code == 4
    assert "highest rate with p90:50: none" in out
    document = results.read(next(tmp_path.iterdir()))
    assert document["max_rate"]["rate"] is None
    assert document["max_rate"]["rate_reason"]
    assert document["resolved"]["rate"] == min(p["rate"] for p in document["max_rate"]["points"])


def test_a_server_too_slow_for_the_percentile_is_said_before_the_search(search: Search) -> None:
    drive = Drive(limit=350.0)
    code, _, err = search(drive, "--slo", "p99.99:50")
    assert code == 3
    assert "p99.99 needs 101,265 requests in a run; the server answers about 400/s" in err
    assert len(drive.made) == 1


def test_a_search_that_is_cut_short_keeps_what_it_found(search: Search, tmp_path: Path) -> None:
    class Interrupted(Drive):
        def __call__(self, config: LoadConfig, *, workers: int, observer: Observer | None = None) -> Result:
            if len(self.made) == 8:
                raise KeyboardInterrupt
            return super().__call__(config, workers=workers, observer=observer)

    code, out, _ = search(Interrupted(limit=350.0))
    assert code == 130
    assert "highest rate with p90:" in out
    assert "cut short after 7 runs" in out
    document = results.read(next(tmp_path.iterdir()))
    found = document["max_rate"]
    assert (document["partial"], found["bottleneck"], found["confirmed"]) == (True, "interrupted", False)
    assert len(found["points"]) == 7
    assert found["rate"] <= 350 < found["above"] <= 600
    assert document["verdict"]["valid"] is False


@pytest.mark.slow
def test_a_real_search_loses_no_request_and_finds_no_rate_beyond_the_server(
    servemark: Servemark, tmp_path: Path
) -> None:
    """One first-in-first-out server of 400/s. What the search finds below that is this machine's, these are not."""
    with server_of(get(TINY), capacity_per_s=CAPACITY) as server:
        flags = ["--slo", "p90:25", "--duration", "4", "--warmup", "1", "--out", str(tmp_path / "out")]
        flags += ["--model-repository", str(tmp_path / "none"), "--json"]
        code, out, _ = servemark("run", TINY, "-u", server.url, "--max-rate", *flags)
        received = len(server.requests())
    document = json.loads(out)
    [folder] = (tmp_path / "out").iterdir()
    found = document["max_rate"]
    probe, *points = (results.read(folder / name) for name in ("probe", *(p["directory"] for p in found["points"])))
    # After a rate that was not met, one request says that the queue is empty.
    settled = sum(not point["met"] for point in found["points"])
    assert accounted(probe) + sum(map(accounted, points)) + settled == received
    # Eight wait for each other's answers: the server's own time bounds what they get.
    assert 0 < (value_of(probe, "throughput.requests") or 0) < CAPACITY * 1.05
    assert code == document["verdict"]["exit_code"]
    met = [point["rate"] for point in found["points"] if point["met"]]
    assert met or found["rate"] is None  # nor is a rate quoted that one lucky run met
    # From a quarter above on, a hundred more wait every second: far too many for 25 ms, whoever is slow besides.
    assert not [rate for rate in met if rate > 1.25 * CAPACITY]
    for point in points:
        rate, p90 = point["request"]["load"]["rate"], value_of(point, "latency.p90")
        assert rate <= 1.25 * CAPACITY or p90 is None or p90 > 25
