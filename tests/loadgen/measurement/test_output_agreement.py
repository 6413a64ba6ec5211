"""Outputs compared in parts: together they say what one comparison of everything says."""

from typing import Any

import numpy as np
import pytest

from loadgen.measurement.output_agreement import Checked, check
from servemark.repository.entry import Golden
from servemark.workload import Agreement, Tensor


class Golds:
    """An answer to golden rows."""

    error, size = None, 0

    def __init__(self, **arrays: Any) -> None:
        self._arrays = arrays

    def message(self) -> str:
        return ""

    def arrays(self, _outputs: Any) -> Any:
        return self._arrays


@pytest.mark.parametrize("spoilt", [None, 3.0, float("nan")])
def test_merged_comparisons_equal_one_of_everything(spoilt: float | None) -> None:
    rng = np.random.default_rng(1)
    outputs = [Tensor("scores", "FP64", (4,)), Tensor("ids", "INT64", (2,))]
    golden = Golden({}, {"scores": rng.random((6, 4)), "ids": rng.integers(0, 9, (6, 2))})
    sampled: list[Any] = []
    for row in range(6):
        scores, ids = golden.outputs["scores"][[row]].astype("f4") + 1e-5 * row, golden.outputs["ids"][[row]].copy()
        if row == 4:
            ids[0, 1] += 1
            scores[0, 0] += 0 if spoilt is None else spoilt
        sampled.append(((row,), Golds(scores=scores, ids=ids)))
    limits = Agreement(min_match=0.9)
    one = check(sampled, golden, outputs, limits)
    parts = [check(part, golden, outputs, limits) for part in (sampled[:1], sampled[1:4], sampled[4:], [])]
    together = Checked.joined(parts, outputs, limits)
    assert (together.answers, together.rows) == (6, 6)
    for name, theirs in one.found.items():
        ours = together.found[name]
        assert ours.agrees == theirs.agrees
        assert ours.max_abs == theirs.max_abs
        assert (ours.match_share, ours.top1_share) == pytest.approx((theirs.match_share, theirs.top1_share))
    # one of two ids of one of six rows: 11 of 12 are equal
    assert together.found["ids"].agrees
    assert together.found["scores"].agrees is (spoilt is None)
