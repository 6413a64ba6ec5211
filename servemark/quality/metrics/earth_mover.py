"""The estimated Earth-Mover distance of generated pictures (Arjovsky et al. 2017, Wasserstein GAN, section 4.2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from servemark.quality.metric import Floats, Row, Summed


class EarthMover(Summed):
    """The mean of the critic's answers to real pictures, less that to generated ones.

    Predictions are what the critic answers, labels say whether the picture is real. A critic's answers have no bound,
    so that there is no worst one.
    """

    figures = ("estimated Earth-Mover distance",)
    higher_is_better = False

    def row(self, predictions: Sequence[Any], label: int) -> Row:
        value = float(np.asarray(predictions[0]).reshape(-1)[0])
        return [value, 1, 0.0, 0] if label else [0.0, 0, value, 1]

    def wrong(self, label: int) -> None:  # noqa: ARG002 - as a metric has it
        return None

    def combine(self, sums: Floats) -> tuple[float, ...]:
        if not sums[1] or not sums[3]:
            return (float("nan"),)
        return (float(sums[0] / sums[1] - sums[2] / sums[3]),)


METRICS = (EarthMover(),)
