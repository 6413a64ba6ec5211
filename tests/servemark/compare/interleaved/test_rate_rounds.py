"""Each engine's highest rate: a search, then interleaved rounds."""

import contextlib
import itertools
import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from loadgen.load.load_config import LoadConfig
from servemark.compare.interleaved import rate_rounds
from servemark.compare.interleaved.contenders import Contender
from servemark.compare.interleaved.hosting import Hosted, Participant
from servemark.compare.interleaved.rate_rounds import RateTurns
from servemark.compare.interleaved.rounds import Rounds
from servemark.documents.load import ConstantRate
from servemark.results import directory as results
from servemark.search.max_rate.search import TOLERANCE
from servemark.stats.unknown import unknown
from servemark.workload import Slo
from tests.support.load_config import config
from tests.support.results import Result, histogram_of, latencies, result_of

TINY = "ranking_tiny"


class Engines:
    """Stands for `drive`: results of servers that meet every rate up to their capacity, by model."""

    def __init__(self, **capacities: float) -> None:
        self.capacities = capacities
        self.runs: list[tuple[str, float]] = []

    def __call__(self, made_of: LoadConfig) -> Result:
        model, directory = made_of.model, made_of.result_dir
        assert directory
        capacity, rate = self.capacities[model], made_of.scenario.rate
        if rate:
            self.runs.append((model, rate))
        result = result_of(
            histogram_of(latencies(10)), rate=1.2 * capacity, objective="missed" if rate > capacity else "met"
        )
        result["request"]["load"] = msgspec.to_builtins(made_of.scenario.load)
        result["bottleneck"] = {"by": "server"}
        over = min(round(100 * math.exp(20 * (rate / capacity - 1))), 10_000)
        shown = {"confidence": 0.99, "requests": 10_000, "over": over, "holds": False, "more_requests": 0}
        result["verdict"]["objectives"] = [each | {"shown": shown} for each in result["verdict"]["objectives"]]
        results.write(directory, result, {"latency_us": ""})
        return result


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[RateTurns, Engines]]:
    """Searches and rounds of engines with these capacities, none of which is served, and the runs they make."""

    def made(**capacities: float) -> tuple[RateTurns, Engines]:
        engines = Engines(**capacities)
        monkeypatch.setattr(rate_rounds, "drive", engines)
        found = [
            Participant(Contender("onnxruntime", "fp32", label), config(TINY, "--model-name", label))
            for label in capacities
        ]
        server = lambda _: contextlib.nullcontext(Hosted("http://127.0.0.1:9"))  # noqa: E731
        load = ConstantRate(rate=1, duration_s=200, warmup=0)
        turns = RateTurns(found, (Slo(99, 50),), load)
        turns.run(Rounds(tmp_path, server, lambda: None, warm_each_turn=False), 3)
        return turns, engines

    return made


def test_all_engines_are_searched_and_then_take_turns(
    rates: Callable[..., tuple[RateTurns, Engines]], tmp_path: Path
) -> None:
    found, engines = rates(a=400, b=800, c=300)
    for label, capacity in (("a", 400), ("b", 800), ("c", 300)):
        rate = found.rates[label]
        assert rate.reason is None
        assert len(rate.rounds) == 3
        assert all(capacity / (1 + TOLERANCE) < each <= capacity for each in rate.rounds)
        # each run, of search and rounds, has a directory of its own and a schedule of its own
        assert rate.found is not None
        assert len(list((tmp_path / f"max-rate-{label}").glob("*-*"))) > len(rate.found.points)
    ratio = found.rates["b"].against(found.rates["a"])
    assert ratio is not None
    assert ratio["value"] == pytest.approx(2, rel=0.1)
    turns = [model for model, _ in itertools.groupby(model for model, _ in engines.runs)]
    assert turns == [*"abc", *"abc", *"ba", *"bc"]  # searches, then A B C, C B A, A B C: c and a go on where they were


def test_without_the_first_engine_there_are_no_rounds(rates: Callable[..., tuple[RateTurns, Engines]]) -> None:
    found, _ = rates(a=2, b=800, c=300)
    reason = found.rates["a"].reason
    assert reason is not None
    assert "p99 needs" in reason
    assert "--duration" in reason
    assert [found.rates[label].rounds for label in "bc"] == [[], []]
    assert found.rates["b"].rate == found.rates["b"].to_dict()["searched_rate"]
    assert found.rates["b"].against(found.rates["a"]) == unknown(f"of the first engine: {reason}")
