"""Lengths of rounds and searches, by the speed of each engine, and the measurement of that speed."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from loadgen.load.load_config import LoadConfig
from servemark.compare.interleaved import timetable as module
from servemark.compare.interleaved.contenders import Contender
from servemark.compare.interleaved.hosting import Hosted, Participant
from servemark.compare.interleaved.preparation import Request
from servemark.compare.interleaved.timetable import EngineWarmUp, requests_needed, search_length_s, timetable
from servemark.documents.commands.compare import Compare
from servemark.documents.load import ConstantRate
from servemark.results import directory as results
from servemark.results.objectives import parse_objectives
from tests.support.load_config import config
from tests.support.results import Result, histogram_of, result_of

TINY = "ranking_tiny"


def places(*labels: str, duration: str = "8") -> list[Participant]:
    """Contenders that exist by name only."""
    settings = config(TINY, "--duration", duration, "--warmup", "1")
    return [Participant(Contender(label, "fp32", label), settings) for label in labels]


def test_the_slowest_engine_sets_the_length_of_all_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    warmed = {"a": EngineWarmUp(100.0, 2.0), "b": EngineWarmUp(5.0, 3.0)}
    times = timetable(places("a", "b"), warmed, 5, (), chosen=True)
    assert (times.round_s, times.rate_rounds) == (15, 0)
    said = capsys.readouterr().err
    assert "b answers about 5 requests/s; a round's verdict needs 60" in said
    # 5 rounds of 15 + 1 s and what starting a run takes
    rounds, rates = times.seconds(places("a", "b"), warmed)
    assert rounds == pytest.approx(5 * (18 + 19))
    assert rates == 0
    given = timetable(places("a", "b", duration="3"), warmed, 5, (), chosen=False)
    assert given.round_s == 3
    said = capsys.readouterr().err
    assert "b answers about 5 requests/s; a round's verdict needs 30, and 3 s have fewer" in said
    assert "leave out --duration, or --duration 15" in said
    timetable(places("a", "b", duration="7"), warmed, 5, (), chosen=False)
    assert capsys.readouterr().err == ""
    timetable(places("a", "b"), {**warmed, "b": EngineWarmUp(0.25, 3.0)}, 5, (), chosen=True)
    assert "too many for 120 s; --duration 300 would be enough" in capsys.readouterr().err


def test_searches_have_a_length_and_rounds_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    warmed = {"a": EngineWarmUp(1000.0, 2.0, 6.0), "b": EngineWarmUp(50.0, 2.0, 6.0)}
    times = timetable(places("a", "b"), warmed, 8, parse_objectives("p99:50"), chosen=True)
    assert (times.round_s, times.search_s, times.rate_rounds) == (8, 46, 4)
    times.announce(places("a", "b"), warmed)
    said = capsys.readouterr().err
    assert "8 rounds of 8 s for each of 2 engines: about 4.5 min" in said
    assert "then each engine's highest rate, by a search and 4 rounds of runs of 46 s" in said


def test_a_plan_says_about_how_long_it_takes_and_what_is_exported_first() -> None:
    settings = config(TINY, "--duration", "8", "--warmup", "1")
    # 2 engines, 5 rounds of 8 + 1 s and 3 s around them
    asked = Compare(what=(TINY,), engines="onnxruntime,pytorch")
    request = Request(asked, settings, ConstantRate(rate=1, duration_s=8), choose_length=True)
    assert request.plan(request.contenders(), ["a@int8"]) == (
        "5 rounds of 2 engines: about 2.0 min, or more where one is slow; "
        "before that exports, seconds to minutes each: a@int8"
    )
    # and a search of 13 runs, and 3 rounds of 2.5 runs each
    more = msgspec.structs.replace(asked, max_rate=True, tuned=True, tune_budget_s=600)
    request = replace(request, options=more, choose_length=False)
    said = "tuning, 5 rounds, highest rates of 2 engines: about 30.2 min"
    assert request.plan(request.contenders(), []) == said


def warmed(monkeypatch: pytest.MonkeyPatch, runs: Iterable[tuple[np.ndarray[Any, Any], Any]]) -> EngineWarmUp:
    """Warm an engine up, by as many runs as are given: their latencies (ms), and whether each was steady."""
    left = iter(runs)

    def run(made_of: LoadConfig) -> Result:
        assert made_of.result_dir
        assert made_of.scenario.auto_warmup
        assert (made_of.concurrency, made_of.scenario.duration_s, made_of.slo) == (1, module.WARM_S, ())
        latencies_ms, steady = next(left)
        histogram = histogram_of(latencies_ms)
        result = result_of(histogram)
        warm = {"method": "MSER", "longest_s": 3.0, "steady": steady, "steady_from_s": None}
        result["scenario"] |= {"measured_s": 0.0, "warmup_s": 0.0, "warmup": warm}
        results.write(made_of.result_dir, result, {"latency_us": histogram.encode()})
        return result

    monkeypatch.setattr(module, "drive", run)
    [place] = places("a")
    found = module.answer(place, Hosted("http://127.0.0.1:9"))
    assert next(left, None) is None
    return found


@pytest.mark.parametrize(
    ("runs_ms", "rate"),
    [([[100.0] * 20], 10.0), ([[60_000.0], [250.0] * 8], 4.0), ([[9000.0] * 3, [1000.0] * 2], 1.0)],
    ids=["many answers", "compiled on the first", "slow"],
)
def test_a_warm_up_tells_how_fast_an_engine_is_not_how_long_its_first_answer_took(
    runs_ms: list[list[float]], rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = warmed(monkeypatch, [(np.array(latencies), True) for latencies in runs_ms])
    assert found.rate == pytest.approx(rate, rel=0.001)


@pytest.mark.parametrize(
    ("steady", "faster"),
    [([True], 1.0), ([False, False, True], 1.2), ([None], 1.0), ([False] * 6, 1.2), ([False] * 2, 1.0)],
    ids=["at once", "after two", "unknown", "never", "no faster"],
)
def test_an_engine_answers_until_it_is_steady_or_no_faster_but_not_for_ever(
    steady: list[bool | None], faster: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [(np.array([100.0 / faster**number] * 20), each) for number, each in enumerate(steady)]
    last = 10 * faster ** (len(steady) - 1)
    assert warmed(monkeypatch, runs).rate == pytest.approx(last, rel=0.001)
    assert ("a was not steady" in capsys.readouterr().err) == (steady[-1] is False)


def test_a_run_is_as_long_as_its_verdict_needs() -> None:
    assert requests_needed(closed=True, percentile=None) == 60
    assert requests_needed(closed=False, percentile=None) == 200
    assert requests_needed(closed=True, percentile=99) == 1000
    # 1000 requests for p99, with what a Poisson run may lack, at half of what was seen
    assert search_length_s(99, 1000) == 8
    assert search_length_s(99, 50) == 46
    assert search_length_s(90, 20) == 20  # 140 requests would do for p90, and 200 give ten windows a p50 each
    assert search_length_s(99, 1) == 120
