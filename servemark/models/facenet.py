"""FaceNet: a face becomes a unit vector, near to those of the same person (AIBench DC-AI-C7).

Schroff et al. 2015, "FaceNet" (CVPR), on Inception-ResNet-v1 (Szegedy et al. 2017, "Inception-v4, Inception-ResNet and
the Impact of Residual Connections on Learning", AAAI) with the sizes of the common TensorFlow implementation: input
160 x 160, embedding 512. BatchNorm has a scale too, which adds 14,800 parameters to the 23,467,824 there. The
classifier that the training needs is not served.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import lfw
from servemark.models.blocks.inception import concat
from servemark.models.blocks.inception import convolution as conv
from servemark.models.blocks.weights import calibrate, drawn, he, seeded
from servemark.models.synthesis.images import picture
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

CALIBRATION_FACES = 16
BRIGHTNESS = 0.35
"""Brightness that a synthetic face adds to its background at its centre, on the scale [0, 1]."""


@dataclass(frozen=True)
class Sizes:
    """Divisor of all widths, residual blocks of the three kinds, width of the embedding and picture side."""

    divisor: int = 1
    repeats: tuple[int, int, int] = (5, 10, 5)
    embedding: int = 512
    side: int = 160


def network(sizes: Sizes) -> Module:
    """Define Inception-ResNet-v1: image [B, 3, side, side] -> embedding [B, embedding] of length 1."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Residual(nn.Module):
        def __init__(
            self, width: int, branches: nn.Module, joined: int, scale: float, *, rectified: bool = True
        ) -> None:
            super().__init__()
            self.branches = branches
            self.up = nn.Conv2d(joined, width, 1)
            self.scale = scale
            self.rectified = rectified

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.scale * self.up(self.branches(x))
            return functional.relu(x) if self.rectified else x

    (w32, w64, w80, w128, w192, w256, w384, w896, w1792) = (
        width // sizes.divisor for width in (32, 64, 80, 128, 192, 256, 384, 896, 1792)
    )

    def block35() -> Residual:
        branches = [
            conv(w256, w32),
            nn.Sequential(conv(w256, w32), conv(w32, w32, 3, same=True)),
            nn.Sequential(conv(w256, w32), conv(w32, w32, 3, same=True), conv(w32, w32, 3, same=True)),
        ]
        return Residual(w256, concat(*branches), 3 * w32, 0.17)

    def block17() -> Residual:
        long = nn.Sequential(conv(w896, w128), conv(w128, w128, (1, 7), same=True), conv(w128, w128, (7, 1), same=True))
        return Residual(w896, concat(conv(w896, w128), long), 2 * w128, 0.1)

    def block8(scale: float = 0.2, *, rectified: bool = True) -> Residual:
        long = nn.Sequential(
            conv(w1792, w192), conv(w192, w192, (1, 3), same=True), conv(w192, w192, (3, 1), same=True)
        )
        return Residual(w1792, concat(conv(w1792, w192), long), 2 * w192, scale, rectified=rectified)

    reduction_a = [
        conv(w256, w384, 3, stride=2),
        nn.Sequential(conv(w256, w192), conv(w192, w192, 3, same=True), conv(w192, w256, 3, stride=2)),
        nn.MaxPool2d(3, 2),
    ]
    reduction_b = [
        nn.Sequential(conv(w896, w256), conv(w256, w384, 3, stride=2)),
        nn.Sequential(conv(w896, w256), conv(w256, w256, 3, stride=2)),
        nn.Sequential(conv(w896, w256), conv(w256, w256, 3, same=True), conv(w256, w256, 3, stride=2)),
        nn.MaxPool2d(3, 2),
    ]

    class FaceNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                *(conv(3, w32, 3, stride=2), conv(w32, w32, 3), conv(w32, w64, 3, same=True), nn.MaxPool2d(3, 2)),
                *(conv(w64, w80), conv(w80, w192, 3), conv(w192, w256, 3, stride=2)),
            )
            a, b, c = sizes.repeats
            self.body = nn.Sequential(
                *(*(block35() for _ in range(a)), concat(*reduction_a)),
                *(*(block17() for _ in range(b)), concat(*reduction_b)),
                *(*(block8() for _ in range(c)), block8(1.0, rectified=False)),
            )
            self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
            self.head = nn.Linear(w1792, sizes.embedding, bias=False)
            self.norm = nn.BatchNorm1d(sizes.embedding, eps=1e-3)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            embedding = self.norm(self.head(self.pool(self.body(self.stem(image)))))
            return functional.normalize(embedding, dim=1, eps=1e-5)  # the reference adds 1e-10 under the root

    return FaceNet()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network; the last BatchNorm's statistics take out what all faces share, so that embeddings differ."""
    (faces,) = drawn(samples(sizes, np.random.default_rng(0)), CALIBRATION_FACES)
    with seeded(name):
        model = network(sizes)
        he(model)
        calibrate(model, faces)
    return model


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw aligned crops: a bright ellipse near the centre of a picture with natural statistics."""
    y, x = np.mgrid[-1 : 1 : sizes.side * 1j, -1 : 1 : sizes.side * 1j]
    while True:
        (dx, dy), (width, height) = rng.normal(0, 0.05, 2), rng.normal((0.5, 0.7), 0.05)
        face = BRIGHTNESS * np.exp(-(((x - dx) / width) ** 2) - ((y - dy) / height) ** 2)
        pixels = np.clip(picture(rng, sizes.side, sizes.side) + face.astype(np.float32), 0, 1)
        yield {"image": _normalise(255 * pixels)}


def read(path: Path) -> Iterator[Sample]:
    """Preprocess the faces of LFW (servemark/datasets/lfw.py). Raises InputDataError."""
    for face in lfw.read(path):
        yield {"image": _normalise(np.asarray(face, np.float32).transpose(2, 0, 1))}


def labelled(path: Path) -> LabelledSet:
    """The pairs of LFW, each with whether it is one person, and its fold. Raises InputDataError with file and line."""

    def example(place: str, first: Path, second: Path, same: int, fold: int) -> Example:
        faces = [np.asarray(lfw.face(each, place), np.float32).transpose(2, 0, 1) for each in (first, second)]
        return Example(tuple({"image": _normalise(face)} for face in faces), (same, fold))

    return LabelledSet.of(lfw.labelled_pairs(path), example, requests_per_example=2)


def _normalise(pixels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray((pixels - np.float32(127.5)) / np.float32(128))


TINY = Sizes(divisor=8, repeats=(1, 1, 1), embedding=32, side=75)  # the smallest side that survives the reductions

WORKLOAD = define(
    "facenet",
    "FaceNet (Inception-ResNet-v1)",
    full=Variant(Sizes(), parameters=23_482_624, flops=2_835_324_608),
    tiny=Variant(TINY, parameters=159_760, flops=4_855_512),
    task="face embedding",
    suites=("AIBench DC-AI-C7",),
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: (Tensor("embedding", "FP32", (sizes.embedding,)),),
    max_batch=64,
    slo=Slo(99, 15),
    quality=Quality("LFW accuracy", 0.9897, "6,000 pairs of LFW, 10 folds, the threshold of the other nine"),
    citation="Schroff et al. 2015, FaceNet: A Unified Embedding for Face Recognition, CVPR (arXiv:1503.03832)",
    origin="Inception-ResNet-v1, which AIBench's TensorFlow code runs. Its PyTorch code has a ResNet-34 with 128 "
    "units of embedding. 98.97 % is the report's.",
    locustfile="face_embedding",
    build=build,
    samples=samples,
    dataset="lfw",
    read=read,
    labelled=labelled,
)
