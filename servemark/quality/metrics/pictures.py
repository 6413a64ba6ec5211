"""Similarity of answered pictures to the right ones (MS-SSIM, MSE), and overlap of volumes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.quality.metric import Means

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


METRICS = (MsSsim(), SquaredError(), VolumeOverlap())
