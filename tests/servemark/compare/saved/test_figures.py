"""Reading of an interval, rate of false alarms by chance alone, and the figures that can be judged."""

import numpy as np
import pytest

from servemark.compare.saved.figures import chosen, read
from servemark.errors import OptionError
from servemark.stats.ratios import Ratio, ratio_of_repeats


@pytest.mark.parametrize(
    ("ratio", "reading"),
    [
        ((1.2, 1.1, 1.3), "worse"),
        ((0.8, 0.7, 0.9), "better"),
        ((1.0, 0.97, 1.03), "not worse"),
        ((1.02, 1.01, 1.03), "not worse"),  # beyond chance, and smaller than the threshold
        ((0.8, 0.6, 1.04), "not worse"),  # B may be better, and is not worse
        ((1.0, 0.8, 1.25), "undecided"),  # too noisy
        ((1.03, 1.01, 1.06), "undecided"),  # slower, and perhaps by the threshold
        ((1.2, 0.9, 1.6), "undecided"),
    ],
)
def test_readings(ratio: tuple[float, float, float], reading: str) -> None:
    assert read(Ratio(*ratio), 0.05) == reading


def test_equal_sides_are_called_different_in_five_of_a_hundred_comparisons_at_most() -> None:
    """A thousand comparisons of 5 and 5 runs of one server, three figures each, at the smallest of thresholds."""
    rng, comparisons, figures = np.random.default_rng(3), 1000, 3
    different = 0
    for _ in range(comparisons):
        runs = rng.lognormal(0, 0.1, (figures, 2, 5))
        ratios = [ratio_of_repeats(b, a, 1 - 0.05 / figures) for a, b in runs.tolist()]
        different += any(read(ratio, 0.0) in {"worse", "better"} for ratio in ratios)
    # With 95 % for each of the three it would be 14 of 100.
    assert 0.02 <= different / comparisons <= 0.05


def test_figures_are_chosen_by_name() -> None:
    assert chosen("regression") == ["p50", "p99", "throughput", "errors", "outputs"]
    assert chosen("throughput, p99") == ["p99", "throughput"]
    assert chosen("regression,p95") == ["p50", "p95", "p99", "throughput", "errors", "outputs"]
    assert chosen("p98,energy.per_inference,errors") == ["errors", "energy.per_inference", "p98"]
    assert chosen("p99.99999") == ["p99.99999"]
    with pytest.raises(OptionError, match="there is no figure 'speed'"):
        chosen("speed")
    with pytest.raises(OptionError, match="neither more nor less of it is better"):
        chosen("generator.workers")
    with pytest.raises(OptionError, match="empty name"):
        chosen("p99,")
