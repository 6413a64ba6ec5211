"""Face verification: the accuracy on LFW's pairs by ten folds (Huang et al. 2007, section 4, view 2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.quality.metric import Row

THRESHOLDS = np.arange(0, 4, 0.01)
"""Squared distances of unit vectors, as FaceNet's public evaluation tries them."""


class FoldedAccuracy:
    """An example is a pair: predictions are two embeddings, the label says whether it is one person, and the fold.

    The pairs of a fold are judged by the threshold that is best for all others.
    """

    figures = ("LFW accuracy", "AUC")
    higher_is_better = True

    def row(self, predictions: Sequence[Any], label: Sequence[int]) -> Row:
        same, fold = (int(each) for each in label)
        with np.errstate(invalid="ignore"):  # of infinity
            units = [_unit(np.asarray(each, np.float64).reshape(-1)) for each in predictions]
            distance = float(((units[0] - units[-1]) ** 2).sum())
        if len(units) != 2:
            raise ValueError(f"{len(units)} pictures are not a pair")
        return [distance, same, fold]

    def wrong(self, label: Sequence[int]) -> Row:
        same, fold = (int(each) for each in label)
        return [4.0 if same else 0.0, same, fold]

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        from sklearn.metrics import roc_auc_score

        table = np.asarray(rows, np.float64)
        distances, same, folds = table[:, 0], table[:, 1] > 0, table[:, 2]
        right = (distances[:, None] < THRESHOLDS) == same[:, None]  # [pairs, thresholds]
        found = []
        for fold in np.unique(folds):
            others = right[folds != fold]
            best = int((others if len(others) else right).mean(axis=0).argmax())
            found.append(right[folds == fold, best].mean())
        known = 0 < same.mean() < 1
        return float(np.mean(found)), float(roc_auc_score(same, -distances)) if known else float("nan")


def _unit(vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


METRICS = (FoldedAccuracy(),)
