"""Minigo: which move next, and who wins, on a board of 9 x 9 (MLPerf Training v0.5, reinforcement learning).

Silver et al. 2017, "Mastering the game of Go without human knowledge" (Nature 550), in the size that MLPerf's reference
has for 9 x 9: 32 channels and 9 residual blocks. One request is one position, as tree search asks for it in batches of
1 to 16. The convolutions keep their biases; the norms of the two heads have no scale and no offset of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import go_games
from servemark.models.blocks.weights import calibrate, centre, drawn, he, seeded
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

BOARD = go_games.SIDE
HISTORY = 8
PLANES = 2 * HISTORY + 1
"""The stones of both sides now and seven moves back, and whose turn it is."""
MOVES = BOARD**2 + 1
"""With passing."""
MOST_STONES = 50
POLICY_SPREAD = 2.0
CALIBRATION_POSITIONS = 32


@dataclass(frozen=True)
class Sizes:
    """Channels, residual blocks and units of the value's hidden layer."""

    width: int = 32
    blocks: int = 9
    value: int = 64


def network(sizes: Sizes) -> Module:
    """Define the dual network: planes [B, 17, 9, 9] -> (policy [B, 82], which sums to 1; value [B, 1] in (-1, 1))."""
    import torch
    from torch import nn

    def convolution(inputs: int, outputs: int, kernel: int, *, affine: bool = True) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.BatchNorm2d(outputs, affine=affine)
        )

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = convolution(sizes.width, sizes.width, 3)
            self.second = convolution(sizes.width, sizes.width, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + self.second(torch.relu(self.first(x))))

    class Minigo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(convolution(PLANES, sizes.width, 3), nn.ReLU())
            self.tower = nn.Sequential(*(Residual() for _ in range(sizes.blocks)))
            self.policy_head = nn.Sequential(
                convolution(sizes.width, 2, 1, affine=False), nn.ReLU(), nn.Flatten(), nn.Linear(2 * BOARD**2, MOVES)
            )
            self.value_head = nn.Sequential(
                convolution(sizes.width, 1, 1, affine=False),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(BOARD**2, sizes.value),
                nn.ReLU(),
                nn.Linear(sizes.value, 1),
            )

        def forward(self, planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            features = self.tower(self.stem(planes))
            return torch.softmax(self.policy_head(features), dim=1), torch.tanh(self.value_head(features))

    return Minigo()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, its heads spread so that positions get different moves and values."""
    import torch
    from torch import nn

    (batch,) = drawn(samples(np.random.default_rng(0)), CALIBRATION_POSITIONS)
    with seeded(name), torch.no_grad():
        model = network(sizes)
        he(model)
        for block in range(sizes.blocks):
            # so that depth does not drown what differs between positions
            model.get_parameter(f"tower.{block}.second.1.weight").fill_(0.5)
        calibrate(model, batch)
        features = model.get_submodule("tower")(model.get_submodule("stem")(batch))
        for head, spread in (("policy_head", POLICY_SPREAD), ("value_head", 0.7)):
            layers = model.get_submodule(head)
            *_, last = (layer for layer in layers.children() if isinstance(layer, nn.Linear))
            centre(last, layers(features), spread=spread)
    return model


def samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Draw positions: up to 50 stones of both sides, of which each plane further back has one less."""
    while True:
        yield {"planes": _planes(rng)}


def _planes(rng: np.random.Generator) -> npt.NDArray[np.float32]:
    count = int(rng.integers(MOST_STONES + 1))
    points = rng.permutation(BOARD**2)[:count]
    mine_first = bool(rng.integers(2))
    planes = np.zeros((PLANES, BOARD**2), np.float32)
    for back in range(HISTORY):
        placed = points[: max(0, count - back)]
        planes[2 * back, placed[mine_first::2]] = 1
        planes[2 * back + 1, placed[not mine_first :: 2]] = 1
    planes[-1] = count % 2 == 0  # black to move
    return planes.reshape(PLANES, BOARD, BOARD)


def labelled(path: Path) -> LabelledSet:
    """Replay games of professionals, one request for each move. Raises InputDataError with file and line."""
    played = go_games.positions(path, HISTORY)
    return LabelledSet(len(played), lambda index: Example((_seen(played[index]),), played[index].move))


def _seen(position: go_games.Position) -> Sample:
    """A position as planes; before the game's first board it is the first, as in the reference."""
    boards = [*position.boards, *[position.boards[-1]] * HISTORY][:HISTORY]
    stones = [board == side for board in boards for side in (position.side, -position.side)]
    black = np.full(BOARD**2, position.side == go_games.BLACK)
    return {"planes": np.stack([*stones, black]).astype(np.float32).reshape(PLANES, BOARD, BOARD)}


WORKLOAD = define(
    "minigo",
    "Minigo 9 x 9",
    full=Variant(Sizes(), parameters=191_386, flops=27_719_624),
    tiny=Variant(Sizes(width=8, blocks=2, value=16), parameters=18_370, flops=604_616),
    task="game of Go",
    suites=("MLPerf Training v0.5",),
    inputs=lambda _: (Tensor("planes", "FP32", (PLANES, BOARD, BOARD)),),
    outputs=lambda _: (Tensor("policy", "FP32", (MOVES,)), Tensor("value", "FP32", (1,))),
    max_batch=128,
    slo=Slo(99, 10),
    quality=Quality(
        "move prediction",
        0.4,
        "moves of four games of professionals on 9 x 9; MLPerf's target is of a tree search of 1,000 positions",
    ),
    citation="Silver et al. 2017, Mastering the game of Go without human knowledge, Nature 550",
    origin="MLPerf Training v0.5's reference for 9 x 9. The target is MLPerf's; AIBench ended its own run at 34 %.",
    locustfile="game",
    build=build,
    samples=lambda _, rng: samples(rng),
    dataset=go_games.KEY,
    labelled=labelled,
)
