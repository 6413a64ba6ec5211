"""PASCAL VOC 2007's mean average precision at an overlap of 0.5, by 11 points of recall.

Everingham et al. 2010, "The PASCAL Visual Object Classes (VOC) Challenge" (IJCV), section 4.2, and the devkit's
VOCevaldet.m, whose pixels are inclusive at both ends and whose difficult objects count for nobody. No well-kept library
has this rule; pycocotools matches in another order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.quality.metric import Row

OVERLAP = 0.5
RECALLS = np.linspace(0, 1, 11)
Boxes = npt.NDArray[np.float64]


class VocAveragePrecision:
    """A row holds, for each class, scores and hits of one picture's detections, and how many objects count.

    Predictions are mappings with `boxes` [N, 4] (left, top, right, bottom, in pixels of the picture), `scores` [N] and
    `labels` [N]; labels are mappings whose `objects` have class, box, and whether it is difficult.
    """

    figures = ("mAP@0.5",)
    higher_is_better = True

    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        answer, objects = predictions[0], label["objects"]
        boxes = np.asarray(answer["boxes"], np.float64).reshape(-1, 4)
        scores, labels = np.asarray(answer["scores"], np.float64), np.asarray(answer["labels"])
        classes = {int(name) for name, *_ in objects} | {int(name) for name in labels}
        return [
            {
                str(name): _matched(boxes[labels == name], scores[labels == name], objects, name)
                for name in sorted(classes)
            }
        ]

    def wrong(self, label: Any) -> Row:
        return self.row([{"boxes": [], "scores": [], "labels": []}], label)

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        classes = {name for [row] in rows for name in row}
        found = [_average_precision([row[name] for [row] in rows if name in row]) for name in sorted(classes)]
        known = [precision for precision in found if precision is not None]
        return (float(np.mean(known)) if known else float("nan"),)


def _matched(boxes: Boxes, scores: Boxes, objects: Sequence[Sequence[Any]], name: int) -> list[Any]:
    """Scores, 1 for a hit and 0 for a miss, of the detections that count; and the number of objects that count."""
    own = [(np.array(box, np.float64), bool(difficult)) for kind, box, difficult in objects if int(kind) == name]
    taken, kept, hits = set[int](), [], []
    for index in np.argsort(-scores, kind="stable"):
        overlaps = [_overlap(boxes[index], box) for box, _ in own]
        best = int(np.argmax(overlaps)) if overlaps else -1
        right = best >= 0 and overlaps[best] >= OVERLAP
        if right and own[best][1]:
            continue
        kept.append(float(scores[index]))
        hits.append(int(right and best not in taken))
        if right:
            taken.add(best)
    return [kept, hits, sum(not difficult for _, difficult in own)]


def _overlap(first: Boxes, second: Boxes) -> float:
    """Intersection over union of boxes with inclusive ends."""
    sides = np.minimum(first[2:], second[2:]) - np.maximum(first[:2], second[:2]) + 1
    if (sides <= 0).any():
        return 0.0
    areas = [np.prod(box[2:] - box[:2] + 1) for box in (first, second)]
    return float(np.prod(sides) / (sum(areas) - np.prod(sides)))


def _average_precision(pictures: Sequence[list[Any]]) -> float | None:
    """The mean over recalls of 0, 0.1 to 1 of the best precision from there on; None for a class without objects."""
    objects = sum(count for _, _, count in pictures)
    if not objects:
        return None
    scores, hits = (np.concatenate([np.asarray(each[i], np.float64) for each in pictures]) for i in (0, 1))
    right = np.cumsum(hits[np.argsort(-scores, kind="stable")])
    recall, precision = right / objects, right / np.arange(1, len(right) + 1)
    return float(np.mean([precision[recall >= least].max(initial=0.0) for least in RECALLS]))


METRICS = (VocAveragePrecision(),)
