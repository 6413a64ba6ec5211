"""Accuracy of a classifier: the share of examples whose class has the highest score, or one of the five highest."""

from typing import Any

import numpy.typing as npt

from servemark.quality.metric import Means


class Accuracy(Means):
    """`ranks` are the places that count as right. Predictions are scores [classes], labels the number of the class.

    Of equal scores the first class wins, as argmax has it.
    """

    shares = True

    def __init__(self, *figures: str, ranks: tuple[int, ...]) -> None:
        self.figures = figures
        self._ranks = ranks

    def scores(self, prediction: npt.NDArray[Any], label: int) -> tuple[float, ...]:
        flat = prediction.reshape(-1)
        if not 0 <= label < len(flat):
            raise ValueError(f"class {label} is none of the model's {len(flat)}")
        own = flat[label]
        before = int((flat > own).sum() + (flat[:label] == own).sum())
        return tuple(float(before < rank) for rank in self._ranks)


METRICS = (
    Accuracy("top-1", "top-5", ranks=(1, 5)),
    Accuracy("accuracy", ranks=(1,)),
    Accuracy("move prediction", "in the first 5", ranks=(1, 5)),
)
