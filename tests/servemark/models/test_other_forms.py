"""Networks that a suite has in another form than the zoo's first one: what sets them apart, against plain code."""

from typing import Any

import pytest
import torch
import torchvision
from torch import nn

from servemark.models import atlasnet, fcn8s, googlenet, googlenet_lrn, resnet20_cifar
from servemark.models.blocks import resnet
from servemark.models.resnet50_v1 import FULL as STRIDE_FIRST
from servemark.workload import get
from tests.support.workload_data import answer, batch_of


def test_the_stride_of_version_1_is_on_the_first_convolution_of_a_stage() -> None:
    """Multiply-adds are those of the paper's network, parameters those of torchvision's."""
    with torch.device("meta"):
        ours, theirs = resnet.network(STRIDE_FIRST), torchvision.models.resnet50()
    shapes = {name: tensor.shape for name, tensor in theirs.state_dict().items()}
    assert {name: tensor.shape for name, tensor in ours.state_dict().items()} == shapes
    for stage in (2, 3, 4):
        first: Any = ours.get_submodule(f"layer{stage}.0")
        assert (first.conv1.stride, first.conv2.stride, first.conv3.stride) == ((2, 2), (1, 1), (1, 1))
    assert get("resnet50_v1").flops == 2 * 3_857_973_248


def test_googlenet_has_the_layers_of_caffe_s_network() -> None:
    """Its multiply-adds are those of that network without the auxiliary heads."""
    with torch.device("meta"):
        model = googlenet_lrn.network(googlenet.Sizes())
    assert get("googlenet_lrn").flops == 2 * 1_582_671_872
    kinds = [type(layer).__name__ for layer in model.modules()]
    assert not any("BatchNorm" in kind for kind in kinds)
    norms = [layer for layer in model.modules() if isinstance(layer, nn.LocalResponseNorm)]
    assert [(norm.size, norm.alpha, norm.beta, norm.k) for norm in norms] == [(5, 1e-4, 0.75, 1.0)] * 2
    pools = [layer for layer in model.children() if isinstance(layer, nn.MaxPool2d)]
    assert [(pool.kernel_size, pool.stride, pool.padding, pool.ceil_mode) for pool in pools] == [(3, 2, 0, True)] * 4
    largest = [layer for layer in model.modules() if getattr(layer, "kernel_size", None) == (5, 5)]
    assert len(largest) == 9


def test_shortcuts_of_small_resnets_have_no_parameters() -> None:
    """Other pixels are left out, and new channels are 0."""
    model: Any = resnet20_cifar.network(resnet20_cifar.Sizes(blocks=1, width=4)).eval()
    block = next(each for each in model.children() if getattr(each, "stride", 1) == 2 and hasattr(each, "bn2"))
    nn.init.zeros_(block.bn2.weight)
    x = torch.rand(2, 4, 8, 8)
    with torch.no_grad():
        found = block(x)
    assert torch.equal(found[:, 2:6], x[:, :, ::2, ::2])
    assert not found[:, :2].any()
    assert not found[:, 6:].any()


@pytest.mark.parametrize("score", ["early", "middle", "late"])
def test_scores_of_all_depths_lie_at_the_pixels_that_they_were_made_of(score: str) -> None:
    """A score that stands for one place of the picture is enlarged to that place, within half of its cell."""
    sizes = fcn8s.Sizes(divisor=64, dense=4, classes=1, side=256)
    model: Any = fcn8s.build("somewhere", sizes)
    maps: dict[str, torch.Tensor] = {}
    for part in ("early", "middle", "late"):
        head = model.get_submodule(f"score_{part}")
        head.register_forward_hook(lambda _, __, found, part=part: maps.update({part: found}))
    image = torch.zeros(1, 3, 256, 256)
    with torch.no_grad():
        model(image)
    cell, window = {"early": (8, 1), "middle": (16, 1), "late": (32, 7)}[score]
    # a place of the map stands for the middle of the pixels under it, of which BORDER - 1 lie before the picture
    place = maps[score].shape[2] // 2
    expected = cell * (place + window / 2) - (fcn8s.BORDER - 1)
    for part in ("early", "middle", "late"):
        model.get_submodule(f"score_{part}").register_forward_hook(
            lambda _, __, found, part=part: _only(found, place if part == score else None)
        )
    with torch.no_grad():
        found = model(image)[0, 0]
    rows = torch.arange(256) + 0.5
    middle = (found.sum(dim=1) * rows).sum() / found.sum()
    assert middle.item() == pytest.approx(expected, abs=cell / 2)


def _only(scores: torch.Tensor, place: int | None) -> torch.Tensor:
    kept = torch.zeros_like(scores)
    if place is not None:
        kept[:, :, place, place] = 1
    return kept


def test_each_square_of_atlasnet_is_moved_by_a_network_of_its_own() -> None:
    workload = get("atlasnet_tiny")
    model: Any = workload.build()
    (image,) = batch_of(workload, 3)
    (points,) = answer(model, image)
    sizes = atlasnet.Sizes(squares=2, grid=4, features=30)
    with torch.no_grad():
        features = model.encoder(image)
        for square in range(sizes.squares):
            for index in range(sizes.grid**2):
                corner = torch.tensor([index // 4 / 3, index % 4 / 3]).expand(3, 2)
                point = model.decoders[square](torch.cat([corner, features], dim=1).unsqueeze(2)).squeeze(2).tanh()
                torch.testing.assert_close(points[:, 16 * square + index], point, atol=1e-5, rtol=0)
    assert (points[0] - points[1]).abs().mean() > 0.05
