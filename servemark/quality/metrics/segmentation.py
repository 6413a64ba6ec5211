"""FCN scores: how well a segmentation network recognises generated street scenes.

Isola et al. 2017, "Image-to-Image Translation with Conditional Adversarial Networks" (CVPR), section 4.1: pixel
accuracy, mean class accuracy and mean class IoU (Long et al. 2015, "Fully Convolutional Networks", section 5).
Means are over all 19 classes, as in pix2pix' evaluation: a class that no label and no answer has counts as 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from servemark.quality.metric import Floats, Row, Summed

CLASSES = 19


class FcnScore(Summed):
    """Predictions and labels are maps of classes [H, W]; labels beyond the 19 classes count for nobody."""

    figures = ("FCN-8s pixel accuracy", "FCN-8s class accuracy", "FCN-8s class IoU")

    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        answered, right = (np.asarray(each).astype(np.int64).reshape(-1) for each in (predictions[0], label))
        if answered.shape != right.shape:
            raise ValueError(f"{len(answered)} pixels were answered, {len(right)} are labelled")
        counted = (right >= 0) & (right < CLASSES)
        # one more class: what is answered beyond the 19 is wrong
        answered = np.where((answered >= 0) & (answered < CLASSES), answered, CLASSES)[counted]
        pairs = right[counted] * (CLASSES + 1) + answered
        return [int(count) for count in np.bincount(pairs, minlength=CLASSES * (CLASSES + 1))]

    def wrong(self, label: Any) -> Row:
        return self.row([np.full_like(np.asarray(label), -1, dtype=np.int64)], label)

    def combine(self, sums: Floats) -> tuple[float, ...]:
        table = sums.reshape(CLASSES, CLASSES + 1)
        right, labelled, answered = table.diagonal(), table.sum(axis=1), table[:, :CLASSES].sum(axis=0)
        if not labelled.any():
            return (float("nan"),) * len(self.figures)
        union = np.maximum(labelled + answered - right, 1)
        return (
            float(right.sum() / labelled.sum()),
            float((right / np.maximum(labelled, 1)).mean()),
            float((right / union).mean()),
        )


METRICS = (FcnScore(),)
