"""`servemark run --max-rate`: what it writes, shows and exits with; the runs themselves are real in the slow test."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loadgen.load.load_config import LoadConfig
from servemark.cli import run as command
from servemark.results import directory as results
from servemark.workload import get
from tests.support.command_line import Done, Servemark
from tests.support.locust_run import Result, accounted, server_of
from tests.support.results import objective_of

TINY = "ranking_tiny"
CAPACITY = 400.0


class Drive:
    """Stands for `drive`: a real result, its figures those of a server that meets every rate up to `limit`."""

    def __init__(self, template: Result, limit: float, late_above: float = 1e9) -> None:
        self.template, self.limit, self.late_above = template, limit, late_above
        self.made: list[LoadConfig] = []

    def __call__(self, config: LoadConfig, *, workers: int, output: int) -> Result:  # noqa: ARG002
        self.made.append(config)
        result = copy.deepcopy(self.template)
        if config.concurrency:
            result["metrics"]["throughput"]["requests_per_s"] = CAPACITY
            return result
        rate, directory = config.scenario.rate, config.result_dir
        assert directory
        late, objective = rate > self.late_above, "missed" if rate > self.limit else "met"
        result["scenario"]["requested_rate"] = rate
        result["verdict"]["constraints"] = [
            {
                "name": name,
                "ok": not late or name != "schedule_delay_p99",
                "value": rate,
                "limit": 1.0,
                "unit": "",
                "remedy": "",
            }
            for name in ("schedule_delay_p99", "client_cpu", "steady_state")
        ]
        result["verdict"] |= {"valid": not late, "exit_code": 2 if late else 4 if objective == "missed" else 0}
        result["verdict"] |= {"objective": objective, "objectives": [objective_of(objective, value=rate)]}
        result["limited_by"] = {"by": "generator" if late else "server", "evidence": ""}
        results.write(directory, result, {"latency_us": f"histogram at {rate}"})
        return result


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One short real result with an objective."""
    from tests.support.locust_run import run, the_result

    out = tmp_path_factory.mktemp("template")
    with server_of(get(TINY)) as server:
        flags = ["--model", TINY, "--url", server.url, "--out", str(out), "--duration", "0.3", "--warmup", "0"]
        run("ranking", *flags, "--request-rate", "100", "--slo", "p90:50")
    return the_result(out)


Search = Callable[..., Done]


@pytest.fixture
def search(servemark: Servemark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Search:
    """The command with `drive` in the place of real runs."""

    def searched(drive: Drive, *flags: str) -> Done:
        monkeypatch.setattr(command, "drive", drive)
        line = ["run", TINY, "-u", "localhost:1", "--max-rate", "--slo", "p90:50", "--out", str(tmp_path), *flags]
        return servemark(*line)

    return searched


def test_the_result_is_that_of_the_confirmed_rate(search: Search, tmp_path: Path, template: Result) -> None:
    drive = Drive(template, limit=350.0)
    code, out, err = search(drive, "--json", "--seed", "7")
    document = json.loads(out)
    [folder] = tmp_path.iterdir()
    assert code == document["verdict"]["exit_code"] == 0
    assert document == results.read(folder)
    assert (document["kind"], document["scenario"]["mode"]) == ("load", "max-rate")
    found = document["max_rate"]
    assert found["rate"] == document["scenario"]["requested_rate"]
    assert 350 / 1.05 <= found["rate"] <= 350 <= found["above"]
    assert (found["confirmed"], found["limited_by"]) == (True, "server")
    # a directory for the probe and for each point, whose result is the point's
    assert {d.name for d in folder.iterdir() if d.is_dir()} == {"probe", *(p["directory"] for p in found["points"])}
    for point in found["points"]:
        assert results.read(folder / point["directory"])["scenario"]["requested_rate"] == point["rate"]
    assert f"histogram at {found['rate']}" in (folder / results.HISTOGRAM_FILE).read_text()
    # every run has a schedule of its own
    assert [config.seed for config in drive.made] == list(range(7, 7 + len(drive.made)))
    assert drive.made[0].slo == ()
    assert "probe: 400 requests/s" in err
    assert "VALID" in err


def test_a_generator_that_limits_makes_the_search_invalid(search: Search, tmp_path: Path, template: Result) -> None:
    code, out, _ = search(Drive(template, limit=1000, late_above=400))
    assert code == 2
    assert "the generator, not the server, is the limit at 480/s (schedule_delay_p99)" in out
    assert "the server reaches at least 320/s" in out
    [folder] = tmp_path.iterdir()
    document = results.read(folder)
    assert document["verdict"]["valid"] is False
    assert [c["name"] for c in document["verdict"]["constraints"] if not c["ok"]] == ["max_rate"]


def test_an_objective_that_no_rate_meets_has_its_own_exit_code(
    search: Search, tmp_path: Path, template: Result
) -> None:
    code, out, _ = search(Drive(template, limit=0))
    assert code == 4
    assert "highest rate with p90:50: none" in out
    document = results.read(next(tmp_path.iterdir()))
    assert document["max_rate"]["rate"] is None
    assert document["max_rate"]["rate_reason"]
    assert document["scenario"]["requested_rate"] == min(p["rate"] for p in document["max_rate"]["points"])


def test_a_server_too_slow_for_the_percentile_is_said_before_the_search(search: Search, template: Result) -> None:
    drive = Drive(template, limit=350.0)
    code, _, err = search(drive, "--duration", "0.2")
    assert code == 3
    assert "p90 needs 140 requests in a run, and the server answers about 400/s" in err
    assert len(drive.made) == 1


def test_a_search_that_is_cut_short_keeps_what_it_found(search: Search, tmp_path: Path, template: Result) -> None:
    class Interrupted(Drive):
        def __call__(self, config: LoadConfig, *, workers: int, output: int) -> Result:
            if len(self.made) == 4:
                raise KeyboardInterrupt
            return super().__call__(config, workers=workers, output=output)

    code, _, _ = search(Interrupted(template, limit=350.0))
    assert code == 130
    document = results.read(next(tmp_path.iterdir()))
    found = document["max_rate"]
    assert (document["partial"], found["limited_by"], found["confirmed"]) == (True, "interrupted", False)
    assert (found["rate"], len(found["points"])) == (320, 3)
    assert 350 < found["above"] <= 480
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
    assert accounted(probe) + sum(map(accounted, points)) == received
    # Eight wait for each other's answers: the server's own time bounds what they get.
    assert 0 < probe["metrics"]["throughput"]["requests_per_s"] < CAPACITY * 1.05
    assert code == document["verdict"]["exit_code"]
    met = [point["rate"] for point in found["points"] if point["valid"]]
    assert found["rate"] in {None, *met}
    # From a quarter above on, a hundred more wait every second: far too many for 25 ms, whoever is slow besides.
    assert not [rate for rate in met if rate > 1.25 * CAPACITY]
    for point in points:
        rate, latency = point["scenario"]["requested_rate"], point["metrics"]["latency_ms"]
        assert (rate in met) <= (latency["p90"] <= 25)
        assert rate <= 1.25 * CAPACITY or latency["p90"] > 25
