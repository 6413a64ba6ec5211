"""Recommendation: the ratio of hits, and the precision of the first places."""

import math
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from servemark.quality.metrics import Means

TOP = 10


class HitRatio(Means):
    """HR@10 and NDCG@10 of leave-one-out (He et al. 2017, Neural Collaborative Filtering, section 4.1).

    Predictions are scores of candidates, labels the place of the one that was held out.

    A candidate with the same score counts as before it: a model that scores all alike hits nothing.
    """

    figures = (f"HR@{TOP}", f"NDCG@{TOP}")
    shares = True

    def scores(self, prediction: npt.NDArray[Any], label: int) -> tuple[float, ...]:
        flat = prediction.reshape(-1)
        if not 0 <= label < len(flat):
            raise ValueError(f"candidate {label} is none of the {len(flat)}")
        rank = int((flat >= flat[label]).sum())  # from 1; itself is among them
        return (1.0, 1 / math.log2(rank + 1)) if rank <= TOP else (0.0, 0.0)


PLACES = (10, 5, 3)


class PrecisionAtK(Means):
    """Precision at 10, 5 and 3 of the next items (Tang & Wang 2018, Ranking Distillation, section 4.1).

    Predictions are item ids, best first; labels the items that the user really chose later.

    An item that is listed again is not a second hit. `mAP@10` averages the precision at each hit among the ten listed,
    over the lesser of what was chosen and ten. Caser's own evaluation ranks all items: its mAP is another figure.
    """

    shares = True

    def __init__(self, name: str) -> None:
        self.figures = (name, *(f"precision@{k}" for k in PLACES[1:]), f"mAP@{PLACES[0]}")

    def scores(self, prediction: npt.NDArray[Any], label: Sequence[int]) -> tuple[float, ...]:
        chosen = {int(item) for item in label}
        if not chosen:
            raise ValueError("the user chose nothing later")
        listed = [int(item) for item in prediction.reshape(-1)[: PLACES[0]]]
        hits = [item in chosen and item not in listed[:place] for place, item in enumerate(listed)]
        at_hits = [sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits) if hit]
        return *(sum(hits[:k]) / k for k in PLACES), sum(at_hits) / min(len(chosen), len(hits))


METRICS = (HitRatio(), PrecisionAtK("precision@k"), PrecisionAtK("precision@10"))
