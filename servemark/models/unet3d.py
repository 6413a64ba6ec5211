"""3D U-Net: kidneys and their tumours in computed tomography (MLPerf Inference).

Çiçek et al. 2016, "3D U-Net: Learning Dense Volumetric Segmentation from Sparse Annotation" (MICCAI), in the form of
Isensee et al. 2021, "nnU-Net" (Nature Methods), that MLPerf's reference has: six levels of two convolutions each, which
a stride of 2 leads down and a transposed convolution up, with instance norms. It is MONAI's DynUNet with these sizes,
parameter by parameter; importing MONAI would take longer than building it. A request is one window of 128^3 voxels, of
which the reference joins some tens for a patient (KiTS19).
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import kits19
from servemark.models.blocks.weights import he, seeded
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

GRAIN = 0.3
"""Deviation of the noise within an organ; the organs' own is about 1."""


@dataclass(frozen=True)
class Sizes:
    """Channels of each level, side of a window and classes with the background."""

    channels: tuple[int, ...] = (32, 64, 128, 256, 320, 320)
    side: int = 128
    classes: int = 3


def network(sizes: Sizes) -> Module:
    """Define it: image [B, 1, side, side, side] -> logits [B, classes, side, side, side]."""
    import torch
    from torch import nn

    def level(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
        layers: list[nn.Module] = []
        for channels, step in ((inputs, stride), (outputs, 1)):
            convolution = nn.Conv3d(channels, outputs, 3, step, padding=1, bias=False)
            layers += [convolution, nn.InstanceNorm3d(outputs, affine=True), nn.ReLU()]
        return nn.Sequential(*layers)

    steps = list(pairwise(sizes.channels))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = level(1, sizes.channels[0])
            self.down = nn.ModuleList(level(above, below, stride=2) for above, below in steps)
            self.up = nn.ModuleList(nn.ConvTranspose3d(below, above, 2, stride=2) for above, below in reversed(steps))
            self.joined = nn.ModuleList(level(2 * above, above) for above, _ in reversed(steps))
            self.head = nn.Conv3d(sizes.channels[0], sizes.classes, 1)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            x = self.first(image)
            passed = []
            for down in self.down:
                passed.append(x)
                x = down(x)
            for up, joined in zip(self.up, self.joined, strict=True):
                x = joined(torch.cat([up(x), passed.pop()], dim=1))
            logits: torch.Tensor = self.head(x)
            return logits

    return UNet()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network; its instance norms keep activations of order 1 in depth."""
    with seeded(name):
        model = network(sizes)
        he(model)
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw windows of a scan with a mean of 0 and a deviation of about 1: organs of several sizes, and noise."""
    while True:
        yield {"image": _window(rng, sizes.side)[None]}


def _window(rng: np.random.Generator, side: int) -> npt.NDArray[np.float32]:
    window = GRAIN * rng.standard_normal((side, side, side), dtype=np.float32)
    for cells in (4, 8, 16):
        organs = rng.standard_normal((cells, cells, cells), dtype=np.float32) * np.float32((4 / cells) ** 0.5)
        for axis in range(3):
            organs = organs.repeat(side // cells, axis)
        window += organs
    return window


def labelled(path: Path) -> LabelledSet:
    """Read the windows of KiTS19's scans, patient by patient. Raises InputDataError."""
    cases = kits19.patients(path)

    # MLPerf's accuracy mode asks for the windows one by one, and a scan takes seconds to read.
    @functools.lru_cache(maxsize=1)
    def example(number: int) -> Example:
        scan = kits19.read(cases[number])
        return Example(tuple({"image": window[None]} for window in kits19.windows(scan.volume)), scan.labels)

    counts = [len(kits19.starts(kits19.shape(case))) for case in cases]
    return LabelledSet(len(cases), example, requests_per_example=counts)


FULL = Sizes()
TINY = Sizes(channels=(4, 8, 8), side=16)

WORKLOAD = define(
    "unet3d",
    "3D U-Net",
    full=Variant(FULL, parameters=31_190_243, flops=954_597_376_000),
    tiny=Variant(TINY, parameters=13_991, flops=23_871_488),
    task="semantic segmentation",
    suites=("MLPerf Inference v6.0",),
    inputs=lambda sizes: (Tensor("image", "FP32", (1, sizes.side, sizes.side, sizes.side)),),
    outputs=lambda sizes: (Tensor("logits", "FP32", (sizes.classes, sizes.side, sizes.side, sizes.side)),),
    max_batch=4,
    slo=Slo(99, 1000),
    quality=Quality("mean Dice", 0.8617, f"KiTS19, {len(kits19.PATIENTS)} patients"),
    citation="Çiçek et al. 2016, 3D U-Net, MICCAI (arXiv:1606.06650)",
    origin="MLPerf Inference's reference; 0.8617 is its trained weights' mean Dice.",
    locustfile="semantic_segmentation",
    build=build,
    samples=samples,
    dataset=kits19.KEY,
    labelled=labelled,
)
