"""Rounds of a comparison, made up to have known figures."""

from typing import Any

from servemark.compare.interleaved.document import document
from servemark.compare.interleaved.turn import Turn
from servemark.results.schema.comparison import ComparisonHeader
from servemark.results.schema.search import CandidateSettings
from servemark.search.refinement import HighestRate
from tests.support.documents import filled
from tests.support.results import ENVIRONMENT, histogram_of, latencies, result_of

Row = Any


def turn(number: int, label: str, p50_ms: float, **figures: Any) -> Turn:
    """An engine's run in a round."""
    histogram = histogram_of(latencies(p50_ms, seed=number))
    result = result_of(histogram, **({"rate": 1000 / p50_ms} | figures))
    return Turn(number, label, f"{number:02}-{label}", result=result, latency=histogram)


def rounds_of(count: int = 5, **ratios: float) -> list[Turn]:
    """Rounds on a machine that drifts by a lot, which all engines of a round share."""
    drift = [1.0, 1.4, 2.0, 1.7, 1.1, 1.3]
    return [turn(n, label, 10 * ratio * drift[n - 1]) for n in range(1, count + 1) for label, ratio in ratios.items()]


def document_of(
    turns: list[Turn],
    labels: list[str],
    partial: str | None = None,
    highest: dict[str, HighestRate] | None = None,
    **opened: Any,
) -> Row:
    """comparison.json of these rounds."""
    machine = {
        "cpu": "a CPU",
        "cores": 2,
        "memory_gb": 1,
        "gpus": [],
        "git_dirty": False,
        "os": "an OS",
        "python": "3",
        "git_commit": "c",
    }
    known: Any = filled(
        ComparisonHeader,
        rounds_requested=5,
        created="2026-01-01T00:00:00+00:00",
        command=["servemark", "compare"],
        workload="ranking",
        batch_size=1,
        duration_s=8.0,
        configurations={label: filled(CandidateSettings, instances=1, max_batch=8) for label in labels},
        environment=ENVIRONMENT | machine,
    )
    return document(known | opened, turns, labels, highest or {}, partial)
