"""HR@10 and NDCG@10 of leave-one-out recommendation (He et al. 2017, Neural Collaborative Filtering, section 4.1)."""

import math
from typing import Any

import numpy.typing as npt

from servemark.quality.metric import Means

TOP = 10


class HitRatio(Means):
    """Predictions are scores of candidates, labels the place of the one that was held out.

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


METRICS = (HitRatio(),)
