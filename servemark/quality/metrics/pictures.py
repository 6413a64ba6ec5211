"""Pictures and volumes against the right ones, label maps, organs, and what a critic says of generated pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.datasets import kits19
from servemark.quality.metrics import Floats, Means, Row, Summed

HALF = 0.5
Array = npt.NDArray[Any]


class MsSsim(Means):
    """Predictions and labels are pictures [3, H, W] in [0, 1].

    Wang et al. 2003, "Multi-scale Structural Similarity for Image Quality Assessment", by torchmetrics.
    """

    figures = ("MS-SSIM",)

    def scores(self, prediction: Array, label: Array) -> tuple[float, ...]:
        import torch
        from torchmetrics.functional.image import multiscale_structural_similarity_index_measure as ms_ssim

        answered, right = (torch.tensor(np.asarray(each, np.float32)[None]) for each in (prediction, label))
        return (float(ms_ssim(answered.clamp(0, 1), right, data_range=1.0)),)


class SquaredError(Means):
    """Predictions and labels are frames [T, 3, H, W] in [0, 1]: squared errors summed over a frame, averaged over all.

    Further figures: the mean over values, and the peak signal-to-noise ratio of a clip's mean in dB. If errors grow
    with time, it is below the mean of the frames' own ratios. A missing answer counts as black where white was right.
    """

    figures = ("MSE", "MSE per value", "clip PSNR")
    higher_is_better = False

    def scores(self, prediction: Array, label: Array) -> tuple[float, ...]:
        right = np.asarray(label, np.float64)
        squares = (np.asarray(prediction, np.float64) - right) ** 2
        mean = float(squares.mean())
        return float(squares.sum() / len(right)), mean, -10 * float(np.log10(max(mean, 1e-12)))

    def wrong(self, label: Any) -> list[Any]:
        right = np.asarray(label, np.float64)
        return [*self.scores(np.where(right < HALF, 1.0, 0.0), right), 1]


class VolumeOverlap(Means):
    """Predictions and labels are occupancies of voxels; overlap is intersection over union of what is above 0.5."""

    figures = ("mean IoU",)

    def scores(self, prediction: Array, label: Array) -> tuple[float, ...]:
        answered, right = (np.asarray(each).reshape(-1) > HALF for each in (prediction, label))
        union = int((answered | right).sum())
        return (float((answered & right).sum() / union) if union else 1.0,)


CLASSES = 19


class FcnScore(Summed):
    """FCN scores: how well a segmentation network recognises generated street scenes.

    Predictions and labels are maps of classes [H, W]; labels beyond the 19 classes count for nobody. Isola et al. 2017,
    "Image-to-Image Translation with Conditional Adversarial Networks" (CVPR), section 4.1: pixel accuracy, mean class
    accuracy and mean class IoU (Long et al. 2015, "Fully Convolutional Networks", section 5). Means are over all 19
    classes, as in pix2pix' evaluation: a class that no label and no answer has counts as 0.
    """

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


SMOOTHING = 1e-6
"""Of the reference: a class that neither has counts as found."""
ORGANS = (1, 2)


class MeanDice(Means):
    """Dice scores of organs in volumes: how far the voxels that were found and those that are there overlap.

    An example is a patient: predictions are the answers to the windows, the label is the class of each voxel. Dice
    1945, "Measures of the Amount of Ecologic Association Between Species" (Ecology 26), as MLPerf's accuracy_kits.py
    computes it: of each class but the background within a patient, then the mean over classes and over patients.
    """

    figures = ("mean Dice", "kidney Dice", "tumour Dice")
    shares = True

    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        right = np.asarray(label)
        return [*self.scores(kits19.joined(predictions, right.shape), right), 1]

    def scores(self, prediction: Any, label: Any) -> tuple[float, ...]:
        scores = []
        for organ in ORGANS:
            found, there = prediction == organ, label == organ
            both, either = int((found & there).sum()), int(found.sum()) + int(there.sum())
            scores.append((2 * both + SMOOTHING) / (either + SMOOTHING))
        return (float(np.mean(scores)), *scores)


class EarthMover(Summed):
    """The mean of the critic's answers to real pictures, less that to generated ones.

    It estimates the Earth-Mover distance (Arjovsky et al. 2017, Wasserstein GAN, section 4.2).

    Predictions are what the critic answers, labels say whether the picture is real. A critic's answers have no bound,
    so that there is no worst one.
    """

    figures = ("estimated Earth-Mover distance",)
    higher_is_better = False

    def row(self, predictions: Sequence[Any], label: int) -> Row:
        value = float(np.asarray(predictions[0]).reshape(-1)[0])
        return [value, 1, 0.0, 0] if label else [0.0, 0, value, 1]

    def wrong(self, label: int) -> None:  # noqa: ARG002 - as a metric has it
        return None

    def combine(self, sums: Floats) -> tuple[float, ...]:
        if not sums[1] or not sums[3]:
            return (float("nan"),)
        return (float(sums[0] / sums[1] - sums[2] / sums[3]),)


METRICS = (MsSsim(), SquaredError(), VolumeOverlap(), FcnScore(), MeanDice(), EarthMover())
