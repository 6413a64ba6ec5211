"""The rounds of a comparison: which of them count, how long they have to be, and the rates found again in rounds."""

import contextlib
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark.cli._load_flags import LoadFlags
from servemark.comparison import rate_rounds, warm_up
from servemark.comparison.contenders import Contender
from servemark.comparison.hosting import Place
from servemark.comparison.rate_rounds import RateRounds
from servemark.comparison.timetable import timetable
from servemark.comparison.validity import exit_code, requests_needed, round_length_s, search_length_s, unmet, unsteady
from servemark.comparison.warm_up import Warmed
from servemark.errors import ExitCode
from servemark.max_rate.search import TOLERANCE
from servemark.results import directory as results
from servemark.runs.locust_process import check
from servemark.workload import Slo
from tests.support.load_config import config
from tests.support.results import Result, histogram_of, latencies, result_of
from tests.support.rounds import document_of, shown, turn

TINY = "ranking_tiny"
NOISE = [1.0, 0.7, 1.2, 0.8, 1.1, 0.6, 1.15, 0.9]
RISING = [0.5, 0.6, 0.7, 0.9, 1.0, 1.1, 1.3, 1.4]


def unsteady_run(windows: list[float] = NOISE, count: int = 400, **changes: Any) -> Result:
    """A closed loop that is INVALID for `steady_state`."""
    return result_of(histogram_of(latencies(10, count)), windows=windows, **{"failed": ("steady_state",), **changes})


def test_an_unsteady_run_without_a_trend_counts_as_a_round() -> None:
    run = unsteady_run()
    assert run["verdict"]["valid"] is False
    assert unmet(run) == []
    assert unsteady(run)
    assert exit_code(run) is ExitCode.VALID
    assert not unsteady(unsteady_run(failed=()))


@pytest.mark.parametrize(
    "run",
    [
        unsteady_run(RISING),
        unsteady_run(RISING[::-1]),
        unsteady_run(NOISE[:5]),
        unsteady_run(count=59),
        unsteady_run([*NOISE[:6], 0.0, 1.0]),
        unsteady_run(scenario={"mode": "open"}),
    ],
    ids=["it gets faster", "it gets slower", "too few windows", "too few requests", "a stall", "open loop"],
)
def test_an_unsteady_run_that_does_not_count(run: Result) -> None:
    assert unmet(run) == ["steady_state"]
    assert exit_code(run) is ExitCode.INVALID


def test_whatever_else_failed_still_does() -> None:
    assert unmet(unsteady_run(failed=("error_share", "steady_state"))) == ["error_share"]
    both = unsteady_run(failed=("steady_state",))
    both["verdict"]["constraints"].append({"name": "slo", "ok": False, "remedy": ""})
    assert unmet(both) == ["slo"]
    assert exit_code(both) is ExitCode.SLO_MISSED


def test_a_comparison_counts_unsteady_rounds_and_says_so() -> None:
    failed = ("steady_state",)
    turns = [turn(n, label, 10, windows=NOISE, failed=failed) for n in range(1, 6) for label in "ab"]
    turns[0] = turn(1, "a", 10, windows=RISING, failed=failed)
    found = document_of(turns, ["a", "b"])
    [a, b] = found["rows"]
    assert (a["verdict"]["valid_rounds"], a["verdict"]["unsteady_rounds"]) == (4, 4)
    assert (b["verdict"]["valid"], b["verdict"]["unsteady_rounds"]) == (True, 5)
    assert [(t["valid"], t["unsteady"]) for t in found["turns"][:2]] == [(False, False), (True, True)]
    text = shown(found)
    assert "a: not every round is VALID (steady_state in 1 of 5)" in text
    assert "unsteady rounds without a trend count, their noise is in the intervals: a 4 of 5, b 5 of 5" in text


def test_a_drift_over_the_rounds_is_noted() -> None:
    drifting = [turn(n, "a", 10 / (1 + 0.1 * n)) for n in range(1, 6)]
    still = [turn(n, "b", 10 * share) for n, share in enumerate((1.0, 1.2, 0.9, 1.1, 1.0), start=1)]
    found = document_of([*drifting, *still], ["a", "b"])
    assert found["rows"][0]["drift"] == pytest.approx(1.5 / 1.1 - 1)
    assert found["rows"][1]["drift"] is None
    assert "from round to round (a by +36%): the engine or the machine still changed" in shown(found)
    both = [turn(n, label, 10 / (1 + 0.1 * n)) for n in range(1, 6) for label in "ab"]
    assert "the machine still changed" in shown(document_of(both, ["a", "b"]))


def test_a_round_is_as_long_as_its_verdict_needs() -> None:
    assert requests_needed(closed=True, percentile=None) == 60
    assert requests_needed(closed=False, percentile=None) == 200
    assert requests_needed(closed=True, percentile=99) == 1000
    assert [round_length_s(60, rate) for rate in (1000.0, 9.4, 5.0, 0.1)] == [8, 8, 15, 120]
    # 1000 requests for p99, with what a Poisson run may lack, at half of what was seen
    assert search_length_s(99, 1000) == 8
    assert search_length_s(99, 50) == 46
    assert search_length_s(90, 20) == 20  # 140 requests would do for p90, and 200 give ten windows a p50 each
    assert search_length_s(99, 1) == 120


def places(*labels: str, duration: str = "8") -> list[Place]:
    """Contenders that exist by name only."""
    settings = config(TINY, "--duration", duration, "--warmup", "1")
    return [Place(Contender(label, "fp32", label), label, settings, {}) for label in labels]


def test_the_slowest_engine_sets_the_length_of_all_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    warmed = {"a": Warmed(100.0, 2.0), "b": Warmed(5.0, 3.0)}
    times = timetable(places("a", "b"), warmed, 5, None, chosen=True)
    assert (times.round_s, times.rate_rounds) == (15, 0)
    said = capsys.readouterr().err
    assert "b answers about 5 requests/s, and a round's verdict asks for 60" in said
    # 5 rounds of 15 + 1 s and what starting a run takes
    rounds, rates = times.minutes(places("a", "b"), warmed)
    assert rounds == pytest.approx(5 * (18 + 19) / 60)
    assert rates == 0
    given = timetable(places("a", "b", duration="3"), warmed, 5, None, chosen=False)
    assert given.round_s == 3
    timetable(places("a", "b"), {**warmed, "b": Warmed(0.25, 3.0)}, 5, None, chosen=True)
    assert "more than 120 s hold; --duration 300 would do" in capsys.readouterr().err


def test_searches_have_a_length_and_rounds_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    warmed = {"a": Warmed(1000.0, 2.0, 6.0), "b": Warmed(50.0, 2.0, 6.0)}
    times = timetable(places("a", "b"), warmed, 8, Slo.parse("p99:50"), chosen=True)
    assert (times.round_s, times.search_s, times.rate_rounds) == (8, 46, 4)
    times.announce(places("a", "b"), warmed)
    said = capsys.readouterr().err
    assert "8 rounds of 8 s for each of 2 engines: about 5 min" in said
    assert "then each one's highest rate, by a search and 4 rounds of runs of 46 s" in said


@pytest.mark.parametrize(
    ("runs_ms", "rate"),
    [([[100.0] * 20], 10.0), ([[60_000.0], [250.0] * 8], 4.0), ([[9000.0] * 3, [1000.0] * 2], 1.0)],
    ids=["many answers", "compiled on the first", "slow"],
)
def test_a_warm_up_tells_how_fast_an_engine_is_not_how_long_its_first_answer_took(
    runs_ms: list[list[float]], rate: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = iter(runs_ms)

    def run(_config: Any, flags: Mapping[str, Any], directory: Path) -> Result:
        assert (flags["num_users"], flags["duration"]) == (1, warm_up.WARM_S)
        histogram = histogram_of(np.array(next(made)))
        result = result_of(histogram)
        result["scenario"]["measured_s"] = 0.0
        results.write(directory, result, {"latency_us": histogram.encode()})
        return result

    monkeypatch.setattr(warm_up, "quietly", run)
    [place] = places("a")
    assert warm_up.warm_up(place, "http://127.0.0.1:9", tmp_path).rate == pytest.approx(rate, rel=0.001)
    assert next(made, None) is None
    assert list(tmp_path.iterdir()) == []


class Engines:
    """Stands for `quietly`: results of servers that meet every rate up to their capacity, by model."""

    def __init__(self, **capacities: float) -> None:
        self.capacities = capacities
        self.runs: list[tuple[str, float]] = []

    def __call__(self, _config: Any, flags: Mapping[str, Any], directory: Path) -> Result:
        model = flags["model_name"]
        capacity, rate = self.capacities[model], flags.get("request_rate", 0.0)
        if rate:
            self.runs.append((model, rate))
        result = result_of(histogram_of(latencies(10)), rate=1.2 * capacity, failed=("slo",) if rate > capacity else ())
        result["scenario"]["requested_rate"] = rate
        result["limited_by"] = {"by": "server"}
        result["verdict"]["constraints"].append({"name": "slo", "ok": rate <= capacity, "value": 1.0, "remedy": ""})
        results.write(directory, result, {"latency_us": ""})
        return result


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[RateRounds, Engines]]:
    """Searches and rounds of engines with these capacities, none of which is served, and the runs they make."""

    def made(**capacities: float) -> tuple[RateRounds, Engines]:
        engines = Engines(**capacities)
        monkeypatch.setattr(rate_rounds, "quietly", engines)
        load = LoadFlags(slo="p99:50", duration="8").for_locust(model=TINY, engine="onnxruntime", precision="fp32")
        found = []
        for label in capacities:
            flags = {**load, "model_name": label, "num_users": 4}
            found.append(Place(Contender("onnxruntime", "fp32", label), label, check(flags, 0, ""), flags))
        host = lambda _: contextlib.nullcontext("http://127.0.0.1:9")  # noqa: E731
        rounds = RateRounds(found, "p99:50", 200.0, tmp_path, host, lambda: None, warm_each_turn=False)
        return rounds, engines

    return made


def test_all_engines_are_searched_and_then_take_turns(
    rates: Callable[..., tuple[RateRounds, Engines]], tmp_path: Path
) -> None:
    found, engines = rates(a=400, b=800, c=300)
    found.run(3)
    for label, capacity in (("a", 400), ("b", 800), ("c", 300)):
        rate = found.rates[label]
        assert rate.reason is None
        assert len(rate.rounds) == 3
        assert all(capacity / (1 + TOLERANCE) < each <= capacity for each in rate.rounds)
        # each run, of search and rounds, has a directory of its own and a schedule of its own
        assert rate.found is not None
        assert len(list((tmp_path / f"max-rate-{label}").glob("*-*"))) > len(rate.found.points)
    ratio = found.rates["b"].against(found.rates["a"])["max_rate"]
    assert ratio["value"] == pytest.approx(2, rel=0.1)
    turns = [model for model, _ in itertools.groupby(model for model, _ in engines.runs)]
    assert turns == [*"abc", *"abc", *"ba", *"bc"]  # searches, then A B C, C B A, A B C: c and a go on where they were


def test_without_the_first_engine_there_are_no_rounds(rates: Callable[..., tuple[RateRounds, Engines]]) -> None:
    found, _ = rates(a=2, b=800, c=300)
    found.run(3)
    reason = found.rates["a"].reason
    assert reason is not None
    assert "p99 needs" in reason
    assert "--duration" in reason
    assert [found.rates[label].rounds for label in "bc"] == [[], []]
    assert found.rates["b"].rate == found.rates["b"].to_dict()["searched_rate"]
    assert found.rates["b"].against(found.rates["a"])["max_rate_reason"] == f"of the first engine: {reason}"
