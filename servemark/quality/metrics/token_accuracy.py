"""Token accuracy of text: the share of the reference's tokens that stand at the same place of the answer."""

from collections.abc import Sequence
from typing import Any

from servemark.quality.metric import Floats, Row, Summed


class TokenAccuracy(Summed):
    """Predictions and labels are sequences of ids; `exact` is the share of sequences that are equal.

    A served model continues its own words. Accuracies that are published of training continue the reference's.
    """

    figures = ("token accuracy", "exact")

    def row(self, predictions: Sequence[Any], label: Sequence[int]) -> Row:
        answered, right = [int(token) for token in predictions[0]], [int(token) for token in label]
        if not right:
            raise ValueError("its reference has no tokens")
        equal = sum(a == b for a, b in zip(answered, right, strict=False))
        return [equal, len(right), int(answered == right), 1]

    def wrong(self, label: Sequence[int]) -> Row:
        return [0, len(label), 0, 1]

    def combine(self, sums: Floats) -> tuple[float, ...]:
        return float(sums[0] / sums[1]), float(sums[2] / sums[3])


METRICS = (TokenAccuracy(),)
