"""Each metric against answers known by hand, and against the libraries of its field."""

import json
import math
from typing import Any

import numpy as np
import pytest

from servemark.errors import OptionError
from servemark.quality.metrics import metric_named, metrics
from servemark.workload import workloads


def values(name: str, *examples: tuple[Any, Any]) -> tuple[float, ...]:
    """The figures of (prediction, label) pairs."""
    metric = metric_named(name)
    return metric.values([metric.row([prediction], label) for prediction, label in examples])


def scores(*values: float) -> Any:
    return np.array(values, np.float32)


def test_every_labelled_workload_names_a_metric() -> None:
    for workload in workloads().values():
        if workload.labelled is not None:
            assert workload.quality is not None, workload.name
            assert workload.quality.metric in metrics(), workload.name


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(OptionError, match="no metric 'beauty'"):
        metric_named("beauty")


def test_accuracy_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import top_k_accuracy_score

    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(200, 8)).astype(np.float32), rng.integers(0, 8, 200)
    found = values("top-1", *zip(logits, labels.tolist(), strict=True))
    expected = [top_k_accuracy_score(labels, logits, k=k, labels=range(8)) for k in (1, 5)]
    assert found == pytest.approx(expected)


FALLING = np.arange(100, 0, -1).astype(np.float32)
TEN = np.arange(5, 15)
AGAIN = np.array([5, 5, 6, 6, 1, 2, 3, 4, 7, 8])
LOGS = np.log(np.array([0.25, 0.25, 0.5], np.float32))
LABELLED, ANSWERED = np.array([[0, 0, 1], [1, 255, 2]]), np.array([[0, 1, 1], [1, 0, 30]])
FOX, DOG = "The quick brown fox jumps over the lazy dog", "The quick brown dog jumps on the log."
BY_HAND: dict[str, tuple[str, list[tuple[Any, Any]], tuple[float, ...]]] = {
    "the first class wins": ("accuracy", [(scores(1, 1), 0), (scores(1, 1), 1)], (0.5,)),
    "ranks": ("HR@10", [(FALLING, 0), (FALLING, 9), (FALLING, 10)], (2 / 3, (1 + 1 / math.log2(11)) / 3)),
    "all alike: the held-out one is last": ("HR@10", [(np.ones(100, np.float32), 0)], (0, 0)),
    "chosen": ("precision@k", [(TEN, [5, 7, 99]), (TEN, [1])], (0.2 / 2, 0.4 / 2, 2 / 3 / 2, (1 + 2 / 3) / 3 / 2)),
    "listed again": ("precision@k", [(np.full(10, 5), [5])], (0.1, 0.2, 1 / 3, 1.0)),
    "two listed again": ("precision@k", [(AGAIN, [5, 6])], (0.2, 0.4, 2 / 3, (1 + 2 / 3) / 2)),
    "the eleventh does not count": ("precision@k", [(np.array([*range(10), 99]), [99])], (0, 0, 0, 0)),
    # "sat" becomes "sit" and "down" is inserted: 2 of 3 words; 1 and 5 of 11 letters
    "words": ("WER", [("the CAT  sit down", "the cat sat")], (2 / 3, 6 / 11)),
    "words of two": ("WER", [("hello duck", "hello world"), ("a b", "a b")], (1 / 4, 5 / 14)),
    "tokens": ("token accuracy", [([1, 2, 3, 9], [1, 5, 3]), ([4], [4]), ([], [7, 8])], (3 / 6, 1 / 3)),
    "the third token does not count": ("perplexity", [(LOGS, 2)], (4, 2)),
    "all tokens": ("perplexity", [(LOGS, 3)], (2 ** (5 / 3), 5 / 3)),
    # 5 words are common and in order: of 8 answered, of 9 right
    "a common sequence": ("ROUGE-L", [(DOG, FOX)], (200 * 5 / 17, 100 * 5 / 8, 100 * 5 / 9)),
    # 3 of 5 labelled pixels; of 19 classes 1/2, 2/2, 0/1; overlaps 1/2, 2/3, 0/1
    "pixels": ("FCN-8s pixel accuracy", [(ANSWERED, LABELLED)], (3 / 5, 1.5 / 19, (1 / 2 + 2 / 3) / 19)),
    "a critic": ("estimated Earth-Mover distance", [(3.0, 1), (5.0, 1), (1.0, 0)], (3,)),
}


@pytest.mark.parametrize(("name", "examples", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_figures_by_hand(name: str, examples: list[tuple[Any, Any]], expected: tuple[float, ...]) -> None:
    assert values(name, *examples) == pytest.approx(expected, rel=1e-5)


def test_a_class_that_the_model_does_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="class 7 is none of the model's 3"):
        metric_named("accuracy").row([scores(1, 2, 3)], 7)


def test_ndcg_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import ndcg_score

    rng = np.random.default_rng(1)
    predictions = rng.normal(size=(50, 30))
    relevant = np.zeros((50, 30))
    relevant[:, 4] = 1
    found = values("HR@10", *((each, 4) for each in predictions))
    assert found[1] == pytest.approx(ndcg_score(relevant, predictions, k=10))


def test_bleu_is_that_of_sacrebleu() -> None:
    from sacrebleu.metrics.bleu import BLEU

    # sacrebleu's own example, as tokens
    right = ["The dog bit the man .", "It was not unexpected .", "The man bit him first ."]
    answered = ["The dog bit the man .", "It was not surprising .", "The man had just bitten him ."]
    whole = BLEU(tokenize="none").corpus_score(answered, [right]).score
    assert 30 < whole < 60
    assert values("BLEU", *zip(answered, right, strict=True)) == pytest.approx((whole,))


def test_bleu_is_smoothed_as_sacrebleu_does_by_default() -> None:
    from sacrebleu.metrics.bleu import BLEU

    # no four words in order are right: multi-bleu.perl, which does not smooth, would say 0
    answered, right = ["a b cc d e f"] * 3, ["a b cc f e d"] * 3
    found = values("BLEU", *zip(answered, right, strict=True))
    assert found == pytest.approx((BLEU(tokenize="none").corpus_score(answered, [right]).score,))
    assert found == pytest.approx((27.30,), abs=0.01)
    assert BLEU(tokenize="none", smooth_method="none").corpus_score(answered, [right]).score == 0


def test_grouped_area_under_the_curve_by_hand() -> None:
    metric = metric_named("GAUC")
    pair = metric.row([scores(0.9), scores(0.1)], [1, 0])  # in order
    three = metric.row([scores(0.2), scores(0.3), scores(0.2)], [1, 0, 0])  # one pair wrong, one equal
    alone = metric.row([scores(0.5)], [1])  # no area
    grouped, everything = metric.values([pair, three, alone])
    assert grouped == pytest.approx((2 * 1 + 3 * 0.25) / 5)
    # clicked 0.9, 0.2, 0.5 against 0.1, 0.3, 0.2: 3 + 1.5 + 3 of 9
    assert everything == pytest.approx(7.5 / 9)


def detections(*found: tuple[list[float], float, int]) -> Any:
    boxes, confidences, labels = zip(*found, strict=True) if found else ((), (), ())
    return {"boxes": np.array(boxes).reshape(-1, 4), "scores": np.array(confidences), "labels": np.array(labels)}


def annotated(*objects: tuple[list[float], int]) -> Any:
    entries = [
        {"bbox": [a, b, c - a, d - b], "area": (c - a) * (d - b), "iscrowd": 0, "category_id": name}
        for (a, b, c, d), name in objects
    ]
    return {"height": 100, "width": 100, "objects": entries}


def outlined(box: list[float]) -> Any:
    """An object that is its box, as a polygon."""
    label, (a, b, c, d) = annotated((box, 1)), box
    label["objects"][0]["segmentation"] = [[a, b, c, b, c, d, a, d]]
    return label


def test_average_precision_by_hand() -> None:
    box, other = [10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]
    label = annotated((box, 1), (other, 1))
    assert values("mAP@[.5:.95]", (detections((box, 0.9, 1), (other, 0.8, 1)), label)) == pytest.approx((1, 1, 1))
    # half of the objects, found at once: precision 1 up to recall 0.5, of 101 points the first 51
    assert values("mAP@[.5:.95]", (detections((box, 0.9, 1)), label)) == pytest.approx((51 / 101,) * 3)
    assert values("mAP@[.5:.95]", (detections(), label)) == pytest.approx((0, 0, 0))


def test_average_precision_is_that_of_pycocotools() -> None:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    rng = np.random.default_rng(3)
    examples, objects, answered = [], [], []
    for picture in range(12):
        corners = rng.uniform(0, 60, (6, 2))
        truth = np.concatenate([corners, corners + rng.uniform(10, 40, (6, 2))], axis=1)
        names = rng.integers(1, 4, 6)
        label = annotated(*((list(map(float, box)), int(name)) for box, name in zip(truth, names, strict=True)))
        label["objects"][0]["iscrowd"] = int(picture == 0)
        moved = truth + rng.normal(0, 3, truth.shape)
        found = detections(*((list(b), float(rng.random()), int(n)) for b, n in zip(moved, names, strict=True)))
        examples.append((found, label))
        objects += [each | {"image_id": picture} for each in label["objects"]]
        answered += [
            {"image_id": picture, "category_id": int(n), "score": float(s), "bbox": [*b[:2], *(b[2:] - b[:2])]}
            for b, s, n in zip(found["boxes"], found["scores"], found["labels"], strict=True)
        ]
    truth_set = COCO()
    truth_set.dataset = {
        "info": {},
        "images": [{"id": picture, "height": 100, "width": 100} for picture in range(12)],
        "annotations": [each | {"id": number} for number, each in enumerate(objects, 1)],
        "categories": [{"id": name} for name in (1, 2, 3)],
    }
    truth_set.createIndex()
    whole = COCOeval(truth_set, truth_set.loadRes(answered), "bbox")
    whole.evaluate()
    whole.accumulate()
    whole.summarize()
    assert values("mAP@[.5:.95]", *examples) == pytest.approx(tuple(whole.stats[:3]))
    assert 0.1 < whole.stats[0] < 0.9


def test_mask_precision_by_hand() -> None:
    from pycocotools import mask

    left, right = np.zeros((2, 100, 100), np.uint8)
    left[:, :50], right[:, 30:80] = 1, 1
    encoded = [mask.encode(np.asfortranarray(each)) for each in (left, right)]
    label = annotated(([0.0, 0.0, 50.0, 100.0], 1))
    label["objects"][0]["segmentation"] = encoded[0]
    answer = detections(([0.0, 0.0, 50.0, 100.0], 0.9, 1))
    assert values("mask AP@[.5:.95]", (answer | {"masks": encoded[:1]}, label)) == pytest.approx((1, 1, 1))
    assert values("mask AP@[.5:.95]", (answer | {"masks": encoded[1:]}, label)) == pytest.approx((0, 0, 0))  # IoU 0.25


def test_voc_average_precision_by_hand() -> None:
    box, far, small = [1.0, 1, 10, 10], [50.0, 50, 80, 80], [20.0, 20, 29, 29]
    label = {"objects": [(7, box, False), (7, far, False), (7, small, True)]}
    # right, difficult (counts for nobody), the same object again, elsewhere
    answer = detections((box, 0.9, 7), (small, 0.8, 7), (box, 0.7, 7), ([90.0, 90, 95, 95], 0.6, 7))
    # recall 0.5 at precision 1, and no more: 6 of 11 points
    assert values("mAP@0.5", (answer, label)) == pytest.approx((6 / 11,))
    second = detections((far, 0.5, 7))
    # in another picture the same class, found at rank 4 of 4: recall 2/3 at precision 2/4
    found = values("mAP@0.5", (answer, label), (second, {"objects": [(7, far, False)]}))
    assert found == pytest.approx(((4 * 1 + 3 * 0.5) / 11,))


def test_pictures_by_hand() -> None:
    rng = np.random.default_rng(0)
    picture = rng.random((3, 176, 176)).astype(np.float32)
    assert values("MS-SSIM", (picture, picture)) == pytest.approx((1,))
    assert values("MS-SSIM", (1 - picture, picture))[0] < 0.2
    frames = np.zeros((2, 3, 4, 4), np.float32)
    answered = frames.copy()
    answered[0] = 0.5  # 48 values off by 0.5, in one of two frames
    # the ratio is of the clip's mean: the frames' own are 6.02 dB and infinite
    assert values("MSE", (answered, frames)) == pytest.approx((6, 0.125, 10 * math.log10(8)))
    assert [metric_named(name).figures[-1] for name in ("MSE", "precision@k")] == ["clip PSNR", "mAP@10"]
    volume = np.zeros((4, 4, 4), np.float32)
    volume[:2] = 1
    shifted = np.roll(volume, 1, axis=0)
    assert values("mean IoU", (shifted, volume), (volume, volume)) == pytest.approx(((1 / 3 + 1) / 2,))


def test_segmentation_of_few_classes_is_that_of_pix2pix() -> None:
    rng = np.random.default_rng(0)
    right, answered = rng.integers(0, 10, (40, 40)), rng.integers(0, 12, (40, 40))
    counts = np.bincount(19 * right.reshape(-1) + answered.reshape(-1), minlength=19**2).reshape(19, 19)
    # scripts/eval_cityscapes/util.py of pix2pix: get_scores
    hits, rows, columns = np.diag(counts), counts.sum(1), counts.sum(0)
    expected = (
        hits.sum() / counts.sum(),
        np.nanmean(hits / (rows + 1e-12)),
        np.nanmean(hits / (rows + columns - hits + 1e-12)),
    )
    assert values("FCN-8s pixel accuracy", (answered, right)) == pytest.approx(expected)


def test_verification_takes_each_fold_s_threshold_from_the_others() -> None:
    metric = metric_named("LFW accuracy")

    def pair(distance: float, same: int, fold: int) -> Any:
        angle = 2 * math.asin(math.sqrt(distance) / 2)
        return metric.row([scores(3, 0), scores(math.cos(angle), math.sin(angle))], [same, fold])

    rows = [pair(0.5, 1, 0), pair(1.5, 0, 0), pair(1.0, 1, 1), pair(1.7, 0, 1)]
    # fold 0 by fold 1's threshold just above 1.0: both right; fold 1 by fold 0's just above 0.5: one of two
    assert rows[0][0] == pytest.approx(0.5, abs=1e-6)
    assert metric.values(rows) == pytest.approx((0.75, 1.0))


PICTURE = np.random.default_rng(0).random((3, 176, 176)).astype(np.float32)
VOLUME = np.ones((2, 2, 2), np.float32)
BOX = [0.0, 0.0, 9.0, 9.0]
ORGANS = np.repeat(np.array([1, 2], np.uint8), 64 * 128 * 128).reshape(128, 128, 128)
EXAMPLES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "top-1": (3, (scores(0, 0, 0, 1, 0, 0),)),
    "accuracy": (3, (scores(0, 0, 0, 1),)),
    "move prediction": (3, (scores(0, 0, 0, 1, 0, 0),)),
    "HR@10": (0, (scores(*range(20, 0, -1)),)),
    "precision@k": ([1], (np.arange(10),)),
    "precision@10": ([1], (np.arange(10),)),
    "WER": ("a b", ("a b",)),
    "BLEU": ("a b c d e", ("a b c d e",)),
    "token accuracy": ([1, 2], ([1, 2],)),
    "perplexity": (2, (scores(-1, -2),)),
    "ROUGE-L": ("a b", ("a b",)),
    "GAUC": ([1, 0], (scores(0.9), scores(0.1))),
    "AUC": (0, (scores(0.9),)),
    "mAP@[.5:.95]": (annotated((BOX, 1)), (detections((BOX, 0.9, 1)),)),
    "mask AP@[.5:.95]": (outlined(BOX), (detections(),)),
    "mAP@0.5": ({"objects": [(1, [0, 0, 9, 9], False)]}, (detections((BOX, 0.9, 1)),)),
    "MS-SSIM": (PICTURE, (PICTURE,)),
    "MSE": (np.ones((1, 3, 2, 2)), (np.ones((1, 3, 2, 2)),)),
    "mean IoU": (VOLUME, (VOLUME,)),
    "FCN-8s pixel accuracy": (np.zeros((2, 2), int), (np.zeros((2, 2), int),)),
    "mean Dice": (ORGANS, (np.ones((3, 128, 128, 128), np.float32),)),
    "LFW accuracy": ([1, 0], (scores(1, 0), scores(1, 0))),
    "estimated Earth-Mover distance": (1, (scores(1),)),
}
"""Metric -> a label, and answers that the metric takes for it."""
NO_WORST = "estimated Earth-Mover distance"
OF_TWO_KINDS = ("AUC", NO_WORST)
"""Metrics that compare examples of label 0 with those of label 1."""
WORST = {"WER": 1.0, "MSE": 12.0, "perplexity": 1 / float(np.finfo(np.float32).tiny)}


@pytest.mark.parametrize("name", metrics())
def test_what_was_not_answered_is_as_wrong_as_can_be(name: str) -> None:
    metric = metric_named(name)
    row = metric.wrong(EXAMPLES[name][0])
    assert (row is None) == (name == NO_WORST)
    if row is not None:
        worst = 0.0 if metric.higher_is_better else WORST[name]
        json.loads(json.dumps(row))  # it goes to the disk
        rows = [row, metric.wrong(1 - EXAMPLES[name][0]) or []] if name in OF_TWO_KINDS else [row]
        assert metric.values(rows)[0] == pytest.approx(worst)


def label_of(name: str, number: int) -> Any:
    """The label of an example of several, as this metric needs them."""
    return number % 2 if name in OF_TWO_KINDS else EXAMPLES[name][0]


def test_a_black_clip_is_not_the_answer_to_a_black_one() -> None:
    metric = metric_named("MSE")
    row = metric.wrong(np.zeros((1, 3, 2, 2)))
    assert row is not None
    assert metric.values([row]) == pytest.approx((12.0, 1.0, 0.0))
