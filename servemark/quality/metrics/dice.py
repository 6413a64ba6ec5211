"""Dice scores of organs in volumes: how far the voxels that were found and those that are there overlap.

Dice 1945, "Measures of the Amount of Ecologic Association Between Species" (Ecology 26), as MLPerf's accuracy_kits.py
computes it: of each class but the background within a patient, then the mean over classes and over patients.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from servemark.datasets import kits19
from servemark.quality.metric import Means, Row

SMOOTHING = 1e-6
"""Of the reference: a class that neither has counts as found."""
ORGANS = (1, 2)


class MeanDice(Means):
    """An example is a patient: predictions are the answers to the windows, the label is the class of each voxel."""

    figures = ("mean Dice", "kidney Dice", "tumour Dice")
    shares = True

    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        right = np.asarray(label)
        return [*self.scores(kits19.joined(predictions, right.shape), right), 1]

    def scores(self, prediction: Any, label: Any) -> tuple[float, ...]:
        scores = []
        for organ in ORGANS:
            found, there = prediction == organ, label == organ
            both, either = int((found & there).sum()), int(found.sum()) + int(there.sum())
            scores.append((2 * both + SMOOTHING) / (either + SMOOTHING))
        return (float(np.mean(scores)), *scores)


METRICS = (MeanDice(),)
