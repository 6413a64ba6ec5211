"""A comparison's turns: its rounds, those that are made again, highest rates, Ctrl-C, and going on."""

import contextlib
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from loadgen.load.load_config import LoadConfig
from servemark.compare.interleaved import run
from servemark.compare.interleaved.contenders import Contender
from servemark.compare.interleaved.hosting import Hosted, Participant
from servemark.compare.interleaved.preparation import Preparation
from servemark.compare.interleaved.timetable import EngineWarmUp
from servemark.documents.commands.compare import Compare
from servemark.documents.load import ConstantRate
from servemark.errors import OptionError
from servemark.results import directory as results
from servemark.search.posterior import TOLERANCE
from servemark.stats.unknown import unknown
from tests.support.load_config import config
from tests.support.results import Result, histogram_of, latencies, result_of

TINY = "ranking_tiny"
Failures = dict[tuple[int, str], tuple[str, ...]]


class Engines:
    """Stands for `drive`: results of servers that meet every rate up to their capacity, by model.

    A run in a round fails what `failures` has of the round and the engine, at the first time alone or always.
    """

    def __init__(self, capacities: dict[str, float], failures: Failures, *, always: bool = False) -> None:
        self.capacities, self.failures, self.always = capacities, failures, always
        self.runs: list[tuple[str, float]] = []
        self.stop_at = -1

    def __call__(self, made_of: LoadConfig) -> Result:
        model, directory = made_of.model, made_of.result_dir
        assert directory
        if len(self.runs) == self.stop_at:
            raise KeyboardInterrupt
        capacity, rate, key = self.capacities[model], made_of.scenario.rate, (made_of.seed + 1, model)
        in_round = directory.parent.name.startswith("max-rate") is False
        if rate or in_round:
            self.runs.append((model, rate))
        failed: tuple[str, ...] = ()
        if in_round:
            failed = self.failures.get(key, ()) if self.always else self.failures.pop(key, ())
        histogram = histogram_of(latencies(1000 / capacity))
        met = "missed" if rate > capacity else "met"
        result = result_of(histogram, rate=1.2 * capacity, objective=met, failed=failed)
        result["request"]["load"] = msgspec.to_builtins(made_of.scenario.load)
        result["bottleneck"] = {"by": "server", "evidence": ""}
        over = min(round(100 * math.exp(20 * (rate / capacity - 1))), 10_000)
        shown = {"confidence": 0.99, "requests": 10_000, "over": over, "holds": False, "more_requests": 0}
        result["verdict"]["objectives"] = [each | {"shown": shown} for each in result["verdict"]["objectives"]]
        results.write(directory, result, {"latency_us": histogram.encode()})
        return result


class Compared:
    """Comparisons of engines, none of which is served."""

    def __init__(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out, self._monkeypatch = out, monkeypatch
        self.engines: Engines

    def __call__(
        self,
        *,
        failures: Failures | None = None,
        always: bool = False,
        stop_at: int = -1,
        rounds: int = 5,
        resume: Path | None = None,
        max_rate: bool = False,
        until_decided: bool = False,
        artifact: str = "as before",
        **capacities: float,
    ) -> run.Comparison:
        self.engines = Engines(capacities or {"a": 100.0, "b": 100.0}, failures or {}, always=always)
        self.engines.stop_at = stop_at
        self._monkeypatch.setattr(run, "drive", self.engines)
        slo = ["--slo", "p99:50"] if max_rate else []
        asked = config(TINY, "--duration", "1", "--warmup", "0", "--out", str(self.out), *slo)
        found = [
            Participant(Contender("onnxruntime", "fp32", label), asked.changed(model_name=label, slo=""))
            for label in self.engines.capacities
        ]
        request = SimpleNamespace(
            options=Compare(
                what=(TINY,),
                rounds=rounds,
                until_decided=until_decided,
                max_rate=max_rate,
                resume=str(resume or ""),
            ),
            config=asked,
            search=ConstantRate(rate=1, duration_s=200, warmup=0),
            choose_length=False,
            contenders=lambda: [each.contender for each in found],
        )
        prepared = SimpleNamespace(
            request=request,
            participants=found,
            tunings={},
            configurations={},
            artifacts={each.label: artifact for each in found},
            left_out={},
            hosts=None,
            server=lambda _: contextlib.nullcontext(Hosted("http://127.0.0.1:9")),
            server_each_turn=False,
            warm_up=lambda: {each.label: EngineWarmUp(50.0, 1.0) for each in found},
        )
        return run.Comparison(cast(Preparation, prepared), lambda *_: None)


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compared:
    return Compared(tmp_path, monkeypatch)


def saved(comparison: run.Comparison) -> Any:
    return json.loads((comparison.folder / "comparison.json").read_text())


def valid(comparison: run.Comparison) -> list[tuple[int, str, bool]]:
    return [(each.round, each.label, each.result["verdict"]["valid"]) for each in comparison.turns]


def test_a_round_that_drifted_is_made_again_with_all_engines(
    compared: Compared, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(failures={(2, "b"): ("steady_state",)})
    found.measure()
    assert {ok for _, _, ok in valid(found)} == {True}
    assert [each.round for each in found.turns] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert saved(found)["repeated"] == [{"round": 2, "label": "b", "failed": ["steady_state"]}]
    said = capsys.readouterr().err
    assert "[2/10] round 1, b: p50 " in said
    assert "round 2 again, because b was INVALID (steady_state)" in said
    assert len(compared.engines.runs) == 12


def test_rounds_end_when_the_answer_is_known(compared: Compared) -> None:
    found = compared(until_decided=True, rounds=12, a=100.0, b=50.0)
    found.measure()
    document = saved(found)
    assert 3 <= document["rounds_done"] < 12
    assert len(compared.engines.runs) == 2 * document["rounds_done"]
    assert document["until_decided"]["decided"] is True
    assert document["until_decided"]["saved_s"] >= 0
    assert document["partial"] is False


def test_a_round_that_drifts_again_stays_invalid(compared: Compared) -> None:
    found = compared(failures={(2, "b"): ("steady_state",)}, always=True)
    found.measure()
    assert [each for each in valid(found) if not each[2]] == [(2, "b", False)]
    assert len(compared.engines.runs) == 12


@pytest.mark.parametrize(
    "failures",
    [
        {(2, "b"): ("error_rate",)},
        {(2, "b"): ("steady_state", "output_agreement")},
        {(number, "a"): ("steady_state",) for number in (1, 2, 3)},
    ],
    ids=["the server's errors", "wrong answers", "half of the rounds or more"],
)
def test_other_rounds_are_not_made_again(compared: Compared, failures: Failures) -> None:
    found = compared(failures=failures)
    found.measure()
    assert len(compared.engines.runs) == 10
    assert saved(found)["repeated"] == []


@pytest.mark.parametrize("stop_at", [3, 11])
def test_an_interrupted_comparison_keeps_its_rounds_and_goes_on(compared: Compared, stop_at: int) -> None:
    """Also in a round that is made again: the former one counts until that is whole."""
    failures: Failures = {(2, "b"): ("steady_state",)}
    cut = compared(failures=dict(failures), stop_at=stop_at)
    with pytest.raises(KeyboardInterrupt):
        cut.measure()
    found = saved(cut)
    assert (found["partial"], found["partial_reason"]) == (True, "interrupted")
    assert len(found["turns"]) == min(stop_at, 10)
    rest = compared(failures={}, resume=cut.folder)
    rest.measure()
    assert len(compared.engines.runs) == 12 - stop_at
    assert {ok for _, _, ok in valid(rest)} == {True}
    assert len(rest.turns) == 10
    assert saved(rest)["partial"] is False


def test_a_comparison_does_not_go_on_with_another_model(compared: Compared) -> None:
    """A change of the code, or another version of an engine, has a model exported anew before the rounds go on."""
    cut = compared(stop_at=3)
    with pytest.raises(KeyboardInterrupt):
        cut.measure()
    with pytest.raises(OptionError, match="was another campaign: the model of a was as before and is exported anew"):
        compared(resume=cut.folder, artifact="exported anew")


def test_all_engines_are_searched_and_then_take_turns(compared: Compared) -> None:
    found = compared(max_rate=True, rounds=1, a=400, b=800, c=300)
    found.measure()
    for number, (label, capacity) in enumerate((("a", 400), ("b", 800), ("c", 300)), start=1):
        rate = found.rates[label]
        assert rate.reason is None
        assert len(rate.rounds) == 3
        assert all(capacity / (1 + TOLERANCE) < each <= capacity for each in rate.rounds)
        # each run, of search and rounds, has a directory of its own and a schedule of its own
        assert rate.found is not None
        assert len(list((found.folder / f"max-rate-{number}-{label}").glob("*-*"))) > len(rate.found.points)
    ratio = found.rates["b"].against(found.rates["a"])
    assert ratio is not None
    assert ratio["value"] == pytest.approx(2, rel=0.1)
    turns = [model for model, _ in itertools.groupby(model for model, rate in compared.engines.runs if rate)]
    assert turns == [*"abc", *"abc", *"ba", *"bc"]  # searches, then A B C, C B A, A B C: c and a go on where they were


def test_highest_rates_go_on_where_they_were(compared: Compared) -> None:
    whole = compared(max_rate=True, rounds=1, a=400, b=800)
    whole.measure()
    many = len(compared.engines.runs)
    cut = compared(max_rate=True, rounds=1, stop_at=many - 5, a=400, b=800)
    with pytest.raises(KeyboardInterrupt):
        cut.measure()
    rest = compared(max_rate=True, rounds=1, resume=cut.folder, a=400, b=800)
    rest.measure()
    assert len(compared.engines.runs) == 5
    assert [replace(each.found, points=()) for each in rest.rates.values() if each.found] == [
        replace(each.found, points=()) for each in whole.rates.values() if each.found
    ]
    assert [each.rounds for each in rest.rates.values()] == [each.rounds for each in whole.rates.values()]


def test_without_the_first_engine_there_are_no_rounds(compared: Compared) -> None:
    found = compared(max_rate=True, rounds=1, a=2, b=800, c=300)
    found.measure()
    reason = found.rates["a"].reason
    assert reason is not None
    assert "p99 needs" in reason
    assert "--duration" in reason
    assert [found.rates[label].rounds for label in "bc"] == [[], []]
    search = found.rates["b"].to_dict()["search"]
    assert search is not None
    assert found.rates["b"].rate == search["rate"]
    assert found.rates["b"].against(found.rates["a"]) == unknown(f"of the first engine: {reason}")
