"""Classes: accuracy by rank, the area under the ROC curve of clicks, and verification of faces."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.quality.metrics import Means, Metric, Row


class Accuracy(Means):
    """The share of examples whose class has the highest score, or one of the highest.

    `ranks` are the places that count as right. Predictions are scores [classes], labels the number of the class.

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


class GroupedAuc(Metric):
    """Area under the ROC curve of click-through rates: of all impressions, and grouped by user.

    An example is a user: predictions are the scores of their impressions, the label says which were clicked. GAUC
    averages the users' own areas, weighted by their impressions (Zhu et al. 2017, "Optimized Cost per Click in Taobao
    Display Advertising", KDD, section 5.1). Users with clicks only, or without one, have no area and no weight.
    """

    figures = ("GAUC", "AUC")

    def row(self, predictions: Sequence[Any], label: Sequence[int]) -> Row:
        if len(predictions) != len(label) or not set(label) <= {0, 1}:
            raise ValueError(f"{len(predictions)} impressions have the clicks {list(label)!r:.80}")
        scores = [float(np.asarray(prediction).reshape(-1)[0]) for prediction in predictions]
        return [scores, [int(click) for click in label]]

    def wrong(self, label: Sequence[int]) -> Row:
        return [[1.0 - click for click in label], [int(click) for click in label]]

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        users = [(scores, clicks) for scores, clicks in rows if len(set(clicks)) > 1]
        if not users:
            return float("nan"), float("nan")
        areas = [_area(scores, clicks) for scores, clicks in users]
        grouped = float(np.average(areas, weights=[len(clicks) for _, clicks in users]))
        everything = [np.concatenate(column) for column in zip(*rows, strict=True)]
        return grouped, _roc_area(everything[1], everything[0])


def _area(scores: Sequence[float], clicks: Sequence[int]) -> float:
    """The share of pairs, a clicked and another impression, that are in order; equal scores count half."""
    clicked, others = ([s for s, c in zip(scores, clicks, strict=True) if c == kind] for kind in (1, 0))
    return float(np.mean([[(a > b) + (a == b) / 2 for b in others] for a in clicked]))


def _roc_area(labels: npt.NDArray[Any], scores: npt.NDArray[Any]) -> float:
    """The area under the ROC curve of all examples; NaN where all labels are alike."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores)) if 0 < labels.mean() < 1 else float("nan")


class Auc(Metric):
    """An example is an impression: the prediction is its score, the label 1 if it was clicked."""

    figures = ("AUC",)

    def row(self, predictions: Sequence[Any], label: int) -> Row:
        if label not in (0, 1):
            raise ValueError(f"the click is {label!r:.80}, not 0 or 1")
        return [float(np.asarray(predictions[0]).reshape(-1)[0]), int(label)]

    def wrong(self, label: int) -> Row:
        return [1.0 - label, int(label)]

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        scores, clicks = np.asarray(rows, np.float64).T
        return (_roc_area(clicks, scores),)


THRESHOLDS = np.arange(0, 4, 0.01)
"""Squared distances of unit vectors, as FaceNet's public evaluation tries them."""


class FoldedAccuracy(Metric):
    """The accuracy on LFW's pairs of faces by ten folds (Huang et al. 2007, section 4, view 2).

    An example is a pair: predictions are two embeddings, the label says whether it is one person, and the fold.

    The pairs of a fold are judged by the threshold that is best for all others.
    """

    figures = ("LFW accuracy", "AUC")

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
        table = np.asarray(rows, np.float64)
        distances, same, folds = table[:, 0], table[:, 1] > 0, table[:, 2]
        right = (distances[:, None] < THRESHOLDS) == same[:, None]  # [pairs, thresholds]
        found = []
        for fold in np.unique(folds):
            others = right[folds != fold]
            best = int((others if len(others) else right).mean(axis=0).argmax())
            found.append(right[folds == fold, best].mean())
        return float(np.mean(found)), _roc_area(same, -distances)


def _unit(vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


METRICS = (
    Accuracy("top-1", "top-5", ranks=(1, 5)),
    Accuracy("accuracy", ranks=(1,)),
    Accuracy("move prediction", "in the first 5", ranks=(1, 5)),
    GroupedAuc(),
    Auc(),
    FoldedAccuracy(),
)
