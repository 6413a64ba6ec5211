"""AI Matrix's synthetic networks: as many layers of each kernel as it published, and TensorFlow's padding."""

from collections import Counter

import pytest
import torch
from torch import nn

from servemark.models import synnet, synnet_3c
from servemark.workload import get


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("synnet", {5: 19, 3: 34, 4: 3, 2: 3, 1: 3}), ("synnet_3c", {11: 1, 7: 1, 5: 7, 3: 28, 1: 41})],
)
def test_layers_are_the_published_ones(name: str, kernels: dict[int, int]) -> None:
    with torch.device("meta"):
        model: nn.Module = {"synnet": synnet, "synnet_3c": synnet_3c}[name].network(synnet.Sizes())
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert Counter(module.kernel_size[0] for module in convolutions) == kernels
    assert sum(p.numel() for p in model.parameters()) == get(name).parameters


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(1, 1, (0, 0)), (2, 1, (0, 1)), (4, 1, (1, 2)), (7, 2, (2, 3)), (11, 4, (3, 4))]
)
def test_padding_is_tensorflow_s_same(kernel: int, stride: int, padding: tuple[int, int]) -> None:
    pad, convolution, *_ = layers = synnet.convolution(3, 2, kernel, stride=stride)
    assert isinstance(pad, nn.ZeroPad2d)
    assert isinstance(convolution, nn.Conv2d)
    assert pad.padding == padding * 2
    assert layers(torch.zeros(2, 3, 224, 224)).shape == (2, 2, 224 // stride, 224 // stride)
