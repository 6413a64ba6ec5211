"""COCO's average precision of boxes and of masks: the mean over classes and ten thresholds of overlap (pycocotools)."""

import contextlib
import copy
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from servemark.quality.metric import Row

MAX_DETECTIONS = 100


class CocoAveragePrecision:
    """A row holds, for each class, which detections of one picture match which objects: pycocotools' own matching.

    Predictions are mappings with `boxes` [N, 4] (left, top, right, bottom, in pixels of the picture), `scores` [N] and
    `labels` [N] (COCO's category ids), for masks also `masks`, a run-length encoding (pycocotools) each. Labels are
    mappings with `height`, `width` and `objects`, the picture's entries of the official annotations.
    """

    higher_is_better = True

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


METRICS = (CocoAveragePrecision("mAP@[.5:.95]", "bbox"), CocoAveragePrecision("mask AP@[.5:.95]", "segm"))
