"""What the benchmark of equal sides calls different."""

from benchmarks.system.same_sides import ROUNDS, outcome
from servemark.regression.saved_runs import Run
from tests.support.results import histogram_of, latencies, result_of


def side(p50_ms: float, seed: int) -> list[Run]:
    """Runs that differ by 1 % from one to the next."""
    histograms = [histogram_of(latencies(p50_ms * (1 + n / 100), 2000, seed=seed + n)) for n in range(ROUNDS)]
    return [
        Run("same", result_of(histogram, rate=1000 / p50_ms * (1 - n / 100)), histogram)
        for n, histogram in enumerate(histograms)
    ]


def test_outcomes() -> None:
    same, slower = side(10, 0), side(13, 50)
    for paired in (True, False):
        assert outcome((same, slower), 0.05, paired=paired) == "different"
        assert outcome((same, side(10, 90)), 0.10, paired=paired) == "same"
    assert outcome((same, side(10, 90)), 0.001, paired=False) == "undecided"
