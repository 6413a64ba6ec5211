"""Spatial transformer: straightens a digit before it classifies it (AIBench DC-AI-C15).

Jaderberg et al. 2015, "Spatial Transformer Networks" (NIPS), with the network of PyTorch's tutorial, which the suite
runs; `align_corners` is True, as it was at the tutorial's time. So small that it measures the server, not the model.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import mnist
from servemark.models.blocks.weights import centre, drawn, he, seeded
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

MEAN, STD = np.float32(0.1307), np.float32(0.3081)  # of MNIST's training pictures
THETA_SPREAD = 0.15
"""Standard deviation of the transform's six numbers over requests; the identity is what they vary around."""
LOGIT_SPREAD = 2.0
CALIBRATION_DIGITS = 64
PEN_PX, BLUR_PX, REACH_PX = 2.5, 1.5, 10.5
BEZIER_POINTS = 24  # close enough together that the pen leaves no gaps
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def network() -> Module:
    """Define the network: image [B, 1, 28, 28] -> (logprobs [B, 10], theta [B, 2, 3])."""
    import torch
    from torch import nn
    from torch.nn import functional

    class SpatialTransformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.localization = nn.Sequential(
                *(nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(8, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
                *(nn.Flatten(), nn.Linear(90, 32), nn.ReLU(), nn.Linear(32, 6)),
            )
            self.classifier = nn.Sequential(
                *(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()),
                *(nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, mnist.CLASSES)),
            )

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            theta = self.localization(image).unflatten(1, (2, 3))
            grid = functional.affine_grid(theta, [image.shape[0], 1, 28, 28], align_corners=True)
            straight = functional.grid_sample(image, grid, align_corners=True)
            return torch.log_softmax(self.classifier(straight), dim=1), theta

    return SpatialTransformer()


def build(name: str) -> Module:
    """Seed the network and spread its two answers over digits: transforms around the identity, and classes."""
    import torch
    from torch import nn

    (batch,) = drawn(samples(np.random.default_rng(0)), CALIBRATION_DIGITS)
    with seeded(name), torch.no_grad():
        model = network()
        he(model)
        locate, classify = model.get_submodule("localization.9"), model.get_submodule("classifier.9")
        assert isinstance(locate, nn.Linear)
        assert isinstance(classify, nn.Linear)
        centre(locate, model(batch)[1].flatten(1), spread=THETA_SPREAD, around=torch.tensor(IDENTITY))
        logits: list[torch.Tensor] = []
        handle = classify.register_forward_hook(lambda _module, _inputs, output: logits.append(output))
        model(batch)
        handle.remove()
        centre(classify, logits[0], spread=LOGIT_SPREAD)
    return model.eval()


def samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Draw digits as MNIST has them: two to four joined strokes of a pen, turned, scaled and shifted at random."""
    while True:
        yield {"image": _normalise(255 * _stroke(rng))}


def _stroke(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw Bezier curves, each from where the last one ends, with a soft-edged pen: [28, 28] in [0, 1]."""
    t = np.linspace(0, 1, BEZIER_POINTS)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    controls = rng.uniform(-1, 1, (3 * rng.integers(2, 5) + 1, 2)) * REACH_PX
    points = np.concatenate([weights @ controls[start : start + 4] for start in range(0, len(controls) - 1, 3)])
    angle, scale = np.radians(rng.normal(0, 10)), rng.uniform(0.8, 1.2)
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    points = points @ turn + mnist.SIDE / 2 + rng.uniform(-3, 3, 2)
    pixels = np.indices((mnist.SIDE, mnist.SIDE)).transpose(1, 2, 0)[:, :, None] + 0.5
    distance = np.sqrt(((pixels - points) ** 2).sum(axis=3).min(axis=2))
    ink: npt.NDArray[np.float64] = np.clip((PEN_PX + BLUR_PX) / 2 - distance, 0, BLUR_PX) / BLUR_PX
    return ink


def labelled(path: Path) -> LabelledSet:
    """Take MNIST's test digits (servemark/datasets/mnist.py). Raises InputDataError."""
    digits = mnist.read(path)
    return LabelledSet(
        len(digits.labels),
        lambda index: Example(({"image": _normalise(digits.images[index])},), int(digits.labels[index])),
    )


def _normalise(pixels: npt.NDArray[np.float64] | npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    normalised: npt.NDArray[np.float32] = (pixels[None].astype(np.float32) / np.float32(255) - MEAN) / STD
    return normalised


VARIANT = Variant(None, parameters=27_360, flops=1_542_600)  # it is tiny itself

WORKLOAD = define(
    "spatial_transformer",
    "Spatial transformer",
    full=VARIANT,
    tiny=VARIANT,
    task="digit classification",
    suites=("AIBench DC-AI-C15",),
    inputs=lambda _: (Tensor("image", "FP32", (1, mnist.SIDE, mnist.SIDE)),),
    outputs=lambda _: (Tensor("logprobs", "FP32", (mnist.CLASSES,)), Tensor("theta", "FP32", (2, 3))),
    max_batch=256,
    slo=Slo(99, 10),
    quality=Quality("accuracy", 0.99, "MNIST's 10,000 test digits"),
    citation="Jaderberg et al. 2015, Spatial Transformer Networks, NIPS (arXiv:1506.02025)",
    origin="PyTorch's tutorial network, which AIBench's code is, with the report's 0.03 M parameters and its 99 %.",
    locustfile="digit_classification",
    build=lambda name, _: build(name),
    samples=lambda _, rng: samples(rng),
    dataset=mnist.KEY,
    labelled=labelled,
)
