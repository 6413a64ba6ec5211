"""Area under the ROC curve of click-through rates: of all impressions, and grouped by user.

Zhu et al. 2017, "Optimized Cost per Click in Taobao Display Advertising" (KDD), section 5.1: GAUC averages the users'
own areas, weighted by their impressions. Users with clicks only, or without one, have no area and no weight.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from servemark.quality.metric import Row


class GroupedAuc:
    """An example is a user: predictions are the scores of their impressions, the label says which were clicked."""

    figures = ("GAUC", "AUC")
    higher_is_better = True

    def row(self, predictions: Sequence[Any], label: Sequence[int]) -> Row:
        if len(predictions) != len(label) or not set(label) <= {0, 1}:
            raise ValueError(f"{len(predictions)} impressions have the clicks {list(label)!r:.80}")
        scores = [float(np.asarray(prediction).reshape(-1)[0]) for prediction in predictions]
        return [scores, [int(click) for click in label]]

    def wrong(self, label: Sequence[int]) -> Row:
        return [[1.0 - click for click in label], [int(click) for click in label]]

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        from sklearn.metrics import roc_auc_score

        users = [(scores, clicks) for scores, clicks in rows if len(set(clicks)) > 1]
        if not users:
            return float("nan"), float("nan")
        areas = [_area(scores, clicks) for scores, clicks in users]
        grouped = float(np.average(areas, weights=[len(clicks) for _, clicks in users]))
        everything = [np.concatenate(column) for column in zip(*rows, strict=True)]
        return grouped, float(roc_auc_score(everything[1], everything[0]))


def _area(scores: Sequence[float], clicks: Sequence[int]) -> float:
    """The share of pairs, a clicked and another impression, that are in order; equal scores count half."""
    clicked, others = ([s for s, c in zip(scores, clicks, strict=True) if c == kind] for kind in (1, 0))
    return float(np.mean([[(a > b) + (a == b) / 2 for b in others] for a in clicked]))


class Auc:
    """An example is an impression: the prediction is its score, the label 1 if it was clicked."""

    figures = ("AUC",)
    higher_is_better = True

    def row(self, predictions: Sequence[Any], label: int) -> Row:
        if label not in (0, 1):
            raise ValueError(f"the click is {label!r:.80}, not 0 or 1")
        return [float(np.asarray(predictions[0]).reshape(-1)[0]), int(label)]

    def wrong(self, label: int) -> Row:
        return [1.0 - label, int(label)]

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        from sklearn.metrics import roc_auc_score

        scores, clicks = np.asarray(rows, np.float64).T
        return (float(roc_auc_score(clicks, scores)) if 0 < clicks.mean() < 1 else float("nan"),)


METRICS = (GroupedAuc(), Auc())
