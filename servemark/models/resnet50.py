"""ResNet-50: image classification (AI Matrix; AIBench DC-AI-C1; MLPerf Inference).

He et al. 2016, "Deep Residual Learning for Image Recognition" (CVPR), in torchvision's form "v1.5": the stride sits on
the 3x3 convolution of a block. Parameter names are torchvision's, so its weights load.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from servemark.agreement import Agreement
from servemark.datasets import image_folder
from servemark.models._spec import Quality, Sample, Slo, Tensor, Workload
from servemark.models._synthesis import image
from servemark.models._weights import calibrate, seeded

if TYPE_CHECKING:
    from torch import nn

RESIDUAL_GAMMA = 0.2
CALIBRATION_IMAGES = 8


@dataclass(frozen=True)
class Sizes:
    """Bottleneck blocks in each of the four stages, width of the first stage, classes and picture side in pixels."""

    blocks: tuple[int, int, int, int] = (3, 4, 6, 3)
    width: int = 64
    classes: int = 1000
    side: int = 224


def network(sizes: Sizes) -> "nn.Module":
    """Define a bottleneck residual network: image [B, 3, side, side] -> logits [B, classes]."""
    from torch import nn
    from torchvision.models.resnet import Bottleneck, conv1x1

    def stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
        outputs = width * Bottleneck.expansion
        shortcut = nn.Sequential(conv1x1(inputs, outputs, stride), nn.BatchNorm2d(outputs))
        return nn.Sequential(
            Bottleneck(inputs, width, stride, shortcut), *(Bottleneck(outputs, width) for _ in range(blocks - 1))
        )

    class ResNet(nn.Sequential):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, sizes.width, 7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(sizes.width)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
            inputs = sizes.width
            for index, blocks in enumerate(sizes.blocks):
                width = sizes.width * 2**index
                self.add_module(f"layer{index + 1}", stage(inputs, width, blocks, stride=1 if index == 0 else 2))
                inputs = width * Bottleneck.expansion
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.flatten = nn.Flatten()
            self.fc = nn.Linear(inputs, sizes.classes)

    return ResNet()


def build(name: str, sizes: Sizes) -> "nn.Module":
    """Seed the network, calibrate its statistics and centre its logits, so that pictures get different classes.

    Random residual networks answer nearly the same to every picture. Small last gammas (Goyal et al. 2017, section 5.1,
    has them zero) and BatchNorm statistics of synthetic pictures keep activations sane; the classifier then takes out
    what all pictures have in common.
    """
    import torch
    from torch import nn
    from torchvision.models.resnet import Bottleneck

    pictures = islice(samples(sizes, np.random.default_rng(0)), CALIBRATION_IMAGES)
    batch = torch.from_numpy(np.stack([picture["image"] for picture in pictures]))
    with seeded(name), torch.no_grad():
        model = network(sizes)
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, Bottleneck):
                nn.init.constant_(module.bn3.weight, RESIDUAL_GAMMA)
        calibrate(model, batch)
        logits = model(batch)
        spread = logits.std(dim=0).mean()
        model.get_parameter("fc.weight").div_(spread)
        model.get_parameter("fc.bias").sub_(logits.mean(dim=0)).div_(spread)
    return model


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw pictures with the statistics of natural images, normalised."""
    while True:
        yield {"image": image(rng, sizes.side, sizes.side)}


def read(path: Path) -> Iterator[Sample]:
    """Preprocess the pictures of ImageNet's `val` folder, or of any folder.

    Raises InputDataError naming the file.
    """
    folder = path / "val" if (path / "val").is_dir() else path
    for picture in image_folder.read(folder):
        yield {"image": picture}


TINY = Sizes(blocks=(1, 1, 1, 1), width=8, classes=10, side=32)


def _workload(name: str, sizes: Sizes, *, parameters: int, flops: int, tiny: Workload | None = None) -> Workload:
    return Workload(
        name=name,
        title="ResNet-50",
        task="image classification",
        suites=("AI Matrix", "AIBench DC-AI-C1"),
        inputs=(Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
        outputs=(Tensor("logits", "FP32", (sizes.classes,)),),
        parameters=parameters,
        flops=flops,
        max_batch=64,
        slo=Slo(99, 15),
        quality=Quality("top-1", 0.749, "ImageNet validation, shorter side 256, centre crop 224"),
        citation="He et al. 2016, Deep Residual Learning for Image Recognition, CVPR (arXiv:1512.03385)",
        locustfile="classification",
        build=lambda: build(name, sizes),
        samples=lambda rng: samples(sizes, rng),
        dataset="imagenet" if tiny else None,
        read=read if tiny else None,
        agreement=Agreement(atol=1e-3),
        tiny=tiny,
    )


WORKLOAD = _workload(
    "resnet50",
    Sizes(),
    parameters=25_557_032,
    flops=8_178_368_512,
    tiny=_workload("resnet50_tiny", TINY, parameters=130_962, flops=1_467_392),
)
