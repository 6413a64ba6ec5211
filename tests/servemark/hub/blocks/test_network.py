"""Networks of libraries are counted; random ones answer by their requests, not by rounding."""

import pytest
import torch
from torch import nn

from servemark.errors import OptionError
from servemark.hub.blocks import network as networks
from servemark.hub.blocks.network import BRANCH_SCALE, spread
from servemark.hub.blocks.ports import Port


class Residual(nn.Module):
    """A branch with LayerScale, and a head."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.branch, self.head = nn.Linear(3, 3), nn.Linear(3, 2)
        self.gamma = nn.Parameter(torch.full((3,), scale))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pooled = image.mean(dim=(2, 3))
        answer: torch.Tensor = self.head(pooled + self.gamma * self.branch(pooled))
        return answer


@pytest.mark.parametrize(("scale", "after"), [(1e-6, BRANCH_SCALE), (0.5, 0.5), (0.0, 0.0)])
def test_a_branch_that_hardly_counts_is_made_to(scale: float, after: float) -> None:
    network, picture = (
        Residual(scale),
        Port(name="image", datatype="FP32", shape=(3, 8, 8), holds="picture", mean=(0.5,) * 3, std=(0.5,) * 3),
    )
    branch = network.branch.weight.clone()
    spread(network, (picture,), 2)
    assert network.gamma.tolist() == pytest.approx([after] * 3)
    assert torch.equal(network.branch.weight, branch)


class Looking(nn.Module):
    """A network whose way depends on its input's values."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        table = torch.ones(11, 4) if bool((ids < 11).all()) else torch.ones(11, 5)
        return table[ids]


class Wrong(nn.Module):
    """A network that takes no ids."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words

    def forward(self, _: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(self.words)


@pytest.mark.parametrize(
    ("words", "fix"), [("mat1 and mat2 shapes cannot be multiplied", "--shape"), ("torch.float8", "export it to ONNX")]
)
def test_other_sizes_are_advised_where_the_error_is_about_them(words: str, fix: str) -> None:
    ids = Port(name="ids", datatype="INT64", shape=(6,), holds="ids", vocabulary=11)
    with pytest.raises(OptionError, match=words) as caught:
        networks.counted(lambda: Wrong(words), (ids,), lambda answer: {"answer": answer})
    assert fix in str(caught.value.fix)


def test_a_network_that_looks_at_values_is_counted_with_them() -> None:
    ids = Port(name="ids", datatype="INT64", shape=(6,), holds="ids", vocabulary=11)
    found = networks.counted(Looking, (ids,), lambda answer: {"answer": answer})
    assert found.outputs[0].shape == (6, 4)
