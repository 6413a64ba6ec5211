"""Residual networks: resnet50, resnet152, with a fourth channel face3d, and of two 3x3 a block atlasnet's encoder.

He et al. 2016, "Deep Residual Learning for Image Recognition" (CVPR), in torchvision's form "v1.5": the stride sits on
the 3x3 convolution of a block. `resnet50_v1` has it on the first 1x1, as the paper does. Parameter names are
torchvision's, so its weights load.
"""

from dataclasses import dataclass
from typing import Any

from servemark.workload import Module

CITATION = "He et al. 2016, Deep Residual Learning for Image Recognition, CVPR (arXiv:1512.03385)"
RESIDUAL_GAMMA = 0.2


@dataclass(frozen=True)
class Sizes:
    """Blocks in each of the four stages, width of the first stage, classes, the picture's dimensions, and the block."""

    blocks: tuple[int, int, int, int]
    width: int = 64
    classes: int = 1000
    channels: int = 3
    side: int = 224
    bottleneck: bool = True
    """Three convolutions a block, of 1x1, 3x3 and 1x1; otherwise two of 3x3."""
    groups: int = 1
    """Groups of a bottleneck's 3x3 convolution (ResNeXt)."""
    group_width: int = 64
    """Channels of a group where the stage is 64 wide."""
    stride_first: bool = False
    """The first convolution of a bottleneck has the stride, not the 3x3."""


def network(sizes: Sizes) -> Module:
    """Define a residual network: image [B, channels, side, side] -> logits [B, classes].

    Blocks start with a small last gamma (Goyal et al. 2017, section 5.1, has it zero), so that depth does not drown
    what differs between pictures.
    """
    from torch import nn
    from torchvision.models.resnet import BasicBlock, Bottleneck, conv1x1

    block: type[BasicBlock | Bottleneck] = Bottleneck if sizes.bottleneck else BasicBlock
    last_norm = "bn3" if sizes.bottleneck else "bn2"

    def stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
        outputs = width * block.expansion
        changes = stride != 1 or inputs != outputs
        shortcut = nn.Sequential(conv1x1(inputs, outputs, stride), nn.BatchNorm2d(outputs)) if changes else None
        groups = {"groups": sizes.groups, "base_width": sizes.group_width}
        stage = nn.Sequential(
            block(inputs, width, stride, shortcut, **groups),
            *(block(outputs, width, **groups) for _ in range(blocks - 1)),
        )
        if sizes.stride_first:
            first: Any = stage[0]
            first.conv1.stride, first.conv2.stride = first.conv2.stride, first.conv1.stride
        for index in range(blocks):
            nn.init.constant_(stage.get_parameter(f"{index}.{last_norm}.weight"), RESIDUAL_GAMMA)
        return stage

    class ResNet(nn.Sequential):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(sizes.channels, sizes.width, 7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(sizes.width)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
            inputs = sizes.width
            for index, blocks in enumerate(sizes.blocks):
                width = sizes.width * 2**index
                self.add_module(f"layer{index + 1}", stage(inputs, width, blocks, stride=1 if index == 0 else 2))
                inputs = width * block.expansion
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.flatten = nn.Flatten()
            self.fc = nn.Linear(inputs, sizes.classes)

    return ResNet()
