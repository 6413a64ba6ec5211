"""Perplexity of a language model: e to the mean negative logarithm of what it gave to the words that came."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from servemark.quality.metric import Floats, Row, Summed

LEAST = math.log(np.finfo(np.float32).tiny)
"""About -87.3: the logarithm of the smallest probability."""


class Perplexity(Summed):
    """Predictions are natural logarithms of probabilities, one for each token that came; labels are how many count.

    Where nothing was answered, each token counts as unlikely as float32 can say.
    """

    figures = ("perplexity", "bits per token")
    higher_is_better = False

    def row(self, predictions: Sequence[Any], label: int) -> Row:
        logarithms = np.asarray(predictions[0], np.float64).reshape(-1)
        if not 0 < label <= len(logarithms):
            raise ValueError(f"{label} tokens of {len(logarithms)} answered ones cannot count")
        return [-float(logarithms[:label].sum()), int(label)]

    def wrong(self, label: int) -> Row:
        return [-LEAST * int(label), int(label)]

    def combine(self, sums: Floats) -> tuple[float, ...]:
        mean = float(sums[0] / sums[1])
        return float(np.exp(mean)), mean / float(np.log(2))


METRICS = (Perplexity(),)
