"""Random networks of libraries answer by their requests, not by rounding."""

import pytest
import torch
from torch import nn

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
