"""Average precision of detected objects: COCO's of boxes and of masks, and PASCAL VOC 2007's."""

import contextlib
import copy
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.quality.metrics import Metric, Row

MAX_DETECTIONS = 100


class CocoAveragePrecision(Metric):
    """The mean over classes and ten thresholds of overlap, of boxes or of masks (pycocotools).

    A row holds, for each class, which detections of one picture match which objects: pycocotools' own matching.

    Predictions are mappings with `boxes` [N, 4] (left, top, right, bottom, in pixels of the picture), `scores` [N] and
    `labels` [N] (COCO's category ids), for masks also `masks`, a run-length encoding (pycocotools) each. Labels are
    mappings with `height`, `width` and `objects`, the picture's entries of the official annotations.
    """

    def __init__(self, name: str, kind: str) -> None:
        prefix = name.removesuffix("@[.5:.95]")
        self.figures = (name, f"{prefix}@.5", f"{prefix}@.75")
        self._kind = kind

    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        return self._matched(predictions[0], label)

    def wrong(self, label: Any) -> Row:
        return self._matched({"boxes": [], "scores": [], "labels": [], "masks": []}, label)

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        found = self._evaluation()
        classes = sorted({int(category) for [row] in rows for category in row})
        found.params.imgIds, found.params.catIds = list(range(len(rows))), classes
        found._paramsEval = copy.deepcopy(found.params)
        found.evalImgs = [_unpacked(row.get(str(category))) for category in classes for [row] in rows]
        with _quiet():
            found.accumulate()
        precision = found.eval["precision"]  # [thresholds, recalls, classes, areas, numbers of detections]
        return tuple(_mean(each) for each in (precision, precision[0], precision[5]))

    def _matched(self, answer: Any, label: Any) -> Row:
        """Match one picture's detections and objects by class: scores, matches, ignored ones."""
        from pycocotools.coco import COCO

        picture = {"id": 0, "height": label["height"], "width": label["width"]}
        objects = [{**each, "id": number, "image_id": 0} for number, each in enumerate(label["objects"], 1)]
        found = [self._detection(answer, index) for index in range(len(answer["scores"]))]
        detected = [{**each, "id": number, "image_id": 0} for number, each in enumerate(found, 1)]
        classes = sorted({each["category_id"] for each in [*objects, *detected]})
        truth, answered = COCO(), COCO()
        with _quiet():
            for data, entries in ((truth, objects), (answered, detected)):
                data.dataset = {"images": [picture], "annotations": entries, "categories": [{"id": c} for c in classes]}
                data.createIndex()
            evaluation = self._evaluation(truth, answered)
            evaluation.params.imgIds, evaluation.params.catIds = [0], classes
            evaluation.evaluate()
        return [{str(each["category_id"]): _packed(each) for each in evaluation.evalImgs if each is not None}]

    def _evaluation(self, *data: Any) -> Any:
        from pycocotools.cocoeval import COCOeval

        with _quiet():
            evaluation = COCOeval(*data, iouType=self._kind)
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.params.maxDets = [MAX_DETECTIONS]
        return evaluation

    def _detection(self, answer: Any, index: int) -> dict[str, Any]:
        left, top, right, bottom = (float(edge) for edge in answer["boxes"][index])
        found = {
            "category_id": int(answer["labels"][index]),
            "score": float(answer["scores"][index]),
            "bbox": [left, top, right - left, bottom - top],
            "area": (right - left) * (bottom - top),
            "iscrowd": 0,
        }
        return found if self._kind == "bbox" else found | {"segmentation": answer["masks"][index]}


def _packed(evaluated: Any) -> list[Any]:
    """Keep the fields of one class in one picture that `accumulate` needs."""
    matches, ignored = (np.asarray(evaluated[key]) for key in ("dtMatches", "dtIgnore"))
    scores = [float(score) for score in evaluated["dtScores"]]
    return [
        scores,
        (matches > 0).astype(int).tolist(),
        ignored.astype(int).tolist(),
        np.asarray(evaluated["gtIgnore"]).astype(int).tolist(),
    ]


def _unpacked(packed: list[Any] | None) -> dict[str, Any] | None:
    if packed is None:
        return None
    scores, matches, ignored, objects = packed
    shape = (len(matches), len(scores))
    return {
        "dtScores": scores,
        "dtMatches": np.array(matches).reshape(shape),
        "dtIgnore": np.array(ignored, bool).reshape(shape),
        "gtIgnore": np.array(objects, int),
    }


def _mean(precision: Any) -> float:
    """Average over the classes with objects; -1 stands for a class without."""
    known = precision[precision > -1]
    return float(known.mean()) if known.size else float("nan")


def _quiet() -> contextlib.AbstractContextManager[Any]:
    """Silence pycocotools, which prints its steps."""
    return contextlib.redirect_stdout(io.StringIO())


OVERLAP = 0.5
RECALLS = np.linspace(0, 1, 11)
Boxes = npt.NDArray[np.float64]


class VocAveragePrecision(Metric):
    """PASCAL VOC 2007's mean average precision at an overlap of 0.5, by 11 points of recall.

    Everingham et al. 2010, "The PASCAL Visual Object Classes (VOC) Challenge" (IJCV), section 4.2, and the devkit's
    VOCevaldet.m, whose pixels are inclusive at both ends and whose difficult objects count for nobody. No well-kept
    library has this rule; pycocotools matches in another order.

    A row holds, for each class, scores and hits of one picture's detections, and how many objects count.

    Predictions are mappings with `boxes` [N, 4] (left, top, right, bottom, in pixels of the picture), `scores` [N] and
    `labels` [N]; labels are mappings whose `objects` have class, box, and whether it is difficult.
    """

    figures = ("mAP@0.5",)

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


METRICS = (
    CocoAveragePrecision("mAP@[.5:.95]", "bbox"),
    CocoAveragePrecision("mask AP@[.5:.95]", "segm"),
    VocAveragePrecision(),
)
