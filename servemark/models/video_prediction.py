"""CDNA: the next frames of a robot pushing things about, from its actions (AIBench DC-AI-C11).

Finn, Goodfellow & Levine 2016, "Unsupervised Learning for Physical Interaction through Video Prediction" (NIPS), as in
the authors' TensorFlow code: seven ConvLSTMs predict kernels that move the pixels of the last frame, and masks that
merge the moved frames. Two of that code's habits are kept: every convolution ends in a ReLU, those of the masks and the
picture drawn from scratch too; and of the 10 moved frames the last finds no mask left. Strided convolutions pad
symmetrically here. The served graph runs all 9 steps, unrolled.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import push
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis.images import image_pool
from servemark.workload import Example, InOrder, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

CONTEXT = 2
KERNEL = 5
MIN_KERNEL_WEIGHT = 1e-12  # of a kernel's weights, so that their sum is never 0
BLOBS = (3, 8)
ACTION_STD, ACTION_CORRELATION = 0.05, 0.9


@dataclass(frozen=True)
class Sizes:
    """Channels of the outer, middle and inner ConvLSTMs, moved frames, frames of a sequence, side in pixels."""

    channels: tuple[int, int, int] = (32, 64, 128)
    masks: int = 10
    length: int = 10
    side: int = 64


def network(sizes: Sizes) -> Module:
    """Define CDNA: (frames [B, 2, 3, S, S], actions [B, T, 5], state [B, 5]) -> T - 1 predicted frames and states.

    Frame t + 1 is predicted from frame t while that is given, then from its own prediction; the state always from its
    own prediction. Returns pred_frames [B, T - 1, 3, S, S] and pred_states [B, T - 1, 5].
    """
    import torch
    from torch import nn
    from torch.nn import functional

    outer, middle, inner = sizes.channels

    class ConvLstm(nn.Module):
        """A ConvLSTM cell whose output, not its state, is normalised."""

        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.gates = nn.Conv2d(inputs + outputs, 4 * outputs, 5, padding=2)
            self.norm = layer_norm(outputs)
            self.outputs = outputs

        def forward(self, features: torch.Tensor, state: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
            if not state:
                zeros = torch.zeros_like(features[:, :1]).expand(-1, self.outputs, -1, -1)
                state = [zeros, zeros]
            hidden, cell = state
            write, new, forget, output = self.gates(torch.cat([features, hidden], dim=1)).chunk(4, dim=1)
            cell = cell * torch.sigmoid(forget + 1) + torch.sigmoid(write) * torch.tanh(new)
            hidden = torch.tanh(cell) * torch.sigmoid(output)
            return self.norm(hidden), [hidden, cell]

    def layer_norm(channels: int) -> nn.Module:
        return nn.GroupNorm(1, channels, eps=1e-12)  # over channels and pixels, weights for each channel

    def up(channels: int) -> nn.Module:
        return nn.ConvTranspose2d(channels, channels, 3, stride=2, padding=1, output_padding=1)

    class Cdna(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enc0 = nn.Conv2d(3, outer, 5, stride=2, padding=2)
            self.enc0_norm = layer_norm(outer)
            self.enc1 = nn.Conv2d(outer, outer, 3, stride=2, padding=1)
            self.enc2 = nn.Conv2d(middle, middle, 3, stride=2, padding=1)
            self.enc3 = nn.Conv2d(middle + 2 * push.POSE, middle, 1)
            self.enc4, self.enc5, self.enc6 = up(inner), up(middle + outer), up(2 * outer)
            self.enc6_norm = layer_norm(2 * outer)
            widths = [(outer, outer), (outer, outer), (outer, middle), (middle, middle), (middle, inner)]
            widths += [(inner, middle), (middle + outer, outer)]
            self.lstms = nn.ModuleList(ConvLstm(inputs, outputs) for inputs, outputs in widths)
            self.scratch = nn.ConvTranspose2d(2 * outer, 3, 1)
            self.masks = nn.ConvTranspose2d(2 * outer, sizes.masks + 1, 1)
            self.kernels = nn.Linear(inner * (sizes.side // 8) ** 2, sizes.masks * KERNEL**2)
            self.next_state = nn.Linear(2 * push.POSE, push.POSE)

        def step(
            self, frame: torch.Tensor, pose: torch.Tensor, states: list[list[torch.Tensor]]
        ) -> tuple[torch.Tensor, list[list[torch.Tensor]]]:
            """Predict the next frame; `pose` [B, 10] is action and state."""
            new: list[list[torch.Tensor]] = []

            def lstm(features: torch.Tensor) -> torch.Tensor:
                features, state = self.lstms[len(new)](features, states[len(new)])
                new.append(state)
                return features

            enc0 = torch.relu(self.enc0_norm(self.enc0(frame)))
            enc1 = torch.relu(self.enc1(lstm(lstm(enc0))))
            enc2 = torch.relu(self.enc2(lstm(lstm(enc1))))
            smeared = pose[:, :, None, None].expand(-1, -1, *enc2.shape[2:])
            inner = lstm(torch.relu(self.enc3(torch.cat([enc2, smeared], dim=1))))
            features = torch.cat([lstm(torch.relu(self.enc4(inner))), enc1], dim=1)
            features = torch.cat([lstm(torch.relu(self.enc5(features))), enc0], dim=1)
            features = torch.relu(self.enc6_norm(self.enc6(features)))
            drawn = torch.sigmoid(torch.relu(self.scratch(features)))
            kernels = self.kernels(inner.flatten(1)).unflatten(1, (sizes.masks, KERNEL**2))
            layers = torch.cat([frame[:, None], drawn[:, None], move(frame, kernels)[:, :-1]], dim=1)
            masks = torch.softmax(torch.relu(self.masks(features)), dim=1)
            return (masks[:, :, None] * layers).sum(dim=1), new

        def forward(
            self, frames: torch.Tensor, actions: torch.Tensor, state: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            predicted: list[torch.Tensor] = []
            poses: list[torch.Tensor] = []
            states: list[list[torch.Tensor]] = [[]] * len(self.lstms)  # empty: zeros
            for t in range(sizes.length - 1):
                pose = torch.cat([actions[:, t], state], dim=1)
                frame, states = self.step(frames[:, t] if t < CONTEXT else predicted[-1], pose, states)
                state = self.next_state(pose)
                predicted.append(frame)
                poses.append(state)
            return torch.stack(predicted, dim=1), torch.stack(poses, dim=1)

    def move(frame: torch.Tensor, kernels: torch.Tensor) -> torch.Tensor:
        """Convolve each sample with its own kernels [B, masks, 25]: a matrix product over the 25 shifted frames."""
        kernels = torch.relu(kernels - MIN_KERNEL_WEIGHT) + MIN_KERNEL_WEIGHT
        kernels = kernels / kernels.sum(dim=2, keepdim=True)
        side, padded = sizes.side, functional.pad(frame, [KERNEL // 2] * 4)
        rows = torch.stack([padded[:, :, y : y + side] for y in range(KERNEL)], dim=1)
        shifted = torch.stack([rows[..., x : x + side] for x in range(KERNEL)], dim=2)  # [B, 5, 5, 3, side, side]
        moved = torch.bmm(kernels, shifted.flatten(1, 2).flatten(2))
        return moved.view(-1, sizes.masks, 3, side, side)

    return Cdna()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network; torch's own initialisation is one under which it copies, moves and mixes the last frame."""
    with seeded(name):
        return network(sizes).eval()


def scene(rng: np.random.Generator, side: int) -> npt.NDArray[np.float32]:
    """Draw a table with coloured things on it, [3, side, side] in [0, 1]."""
    pool = image_pool(side, side)
    sharp = pool[rng.integers(len(pool))]
    shifted = [np.roll(sharp, shift, axis) for shift in range(-3, 4) for axis in (1, 2)]
    table: npt.NDArray[np.float32] = np.mean(shifted, axis=0)
    y, x = np.mgrid[:side, :side] / side
    for _ in range(rng.integers(*BLOBS, endpoint=True)):
        (left, top), size = rng.uniform(0.1, 0.9, 2), rng.uniform(0.04, 0.1)
        inside = np.hypot(x - left, y - top) < size
        table[:, inside] = rng.uniform(0, 1, (3, 1))
    return table


def with_arm(table: npt.NDArray[np.float32], pose: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Draw the arm, dark, from the upper edge to where its pose (x, y in [-1, 1]) says the gripper is."""
    side = table.shape[1]
    y, x = np.mgrid[:side, :side] / side
    tip_x, tip_y = (np.clip(pose[:2], -1, 1) + 1) / 2
    along = np.clip(y / max(tip_y, 1e-3), 0, 1)  # 0 at the edge, 1 at the gripper
    arm = (y <= tip_y) & (np.abs(x - (0.5 + along * (tip_x - 0.5))) < 0.05)
    picture = table.copy()
    picture[:, arm] = 0.1
    return picture


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw pushes: the commanded poses wander, each from the one before by a first-order autoregressive step."""
    while True:
        table = scene(rng, sizes.side)
        poses, speed = [rng.uniform(-0.5, 0.5, push.POSE)], rng.normal(0, ACTION_STD, push.POSE)
        for _ in range(sizes.length):
            kick = rng.normal(0, ACTION_STD * np.sqrt(1 - ACTION_CORRELATION**2), push.POSE)
            speed = ACTION_CORRELATION * speed + kick
            poses.append(poses[-1] + speed)
        path = np.array(poses, np.float32)
        frames = np.stack([with_arm(table, pose) for pose in path[:CONTEXT]])
        yield {"frames": frames, "actions": path[1:], "state": path[0]}


def read(path: Path) -> Iterator[Sample]:
    """Make one request of the start of each push. Raises InputDataError with file and record."""
    sizes = Sizes()
    for frames, actions, state in push.read(path, frames=CONTEXT, moves=sizes.length, side=sizes.side):
        yield {"frames": frames, "actions": actions, "state": state}


def labelled(path: Path) -> LabelledSet:
    """The same with frames 2 to 9, which are predicted. Raises InputDataError with file and record."""
    sizes = Sizes()
    pushes = InOrder(lambda: push.read(path, frames=sizes.length, moves=sizes.length, side=sizes.side))

    def example(frames: push.Floats, actions: push.Floats, state: push.Floats) -> Example:
        return Example(({"frames": frames[:CONTEXT], "actions": actions, "state": state},), frames[CONTEXT:])

    # the first answer is of frame 1, which is given
    return LabelledSet.of(pushes, example, lambda outputs, _label: outputs["pred_frames"][CONTEXT - 1 :])


WORKLOAD = define(
    "video_prediction",
    "Convolutional dynamic neural advection (CDNA)",
    full=Variant(Sizes(), parameters=8_312_063, flops=31_723_389_828),
    tiny=Variant(Sizes(channels=(4, 8, 16), masks=4, length=4, side=16), parameters=105_163, flops=10_975_404),
    task="video prediction",
    suites=("AIBench DC-AI-C11",),
    inputs=lambda sizes: (
        Tensor("frames", "FP32", (CONTEXT, 3, sizes.side, sizes.side)),
        Tensor("actions", "FP32", (sizes.length, push.POSE)),
        Tensor("state", "FP32", (push.POSE,)),
    ),
    outputs=lambda sizes: (
        Tensor("pred_frames", "FP32", (sizes.length - 1, 3, sizes.side, sizes.side)),
        Tensor("pred_states", "FP32", (sizes.length - 1, push.POSE)),
    ),
    max_batch=32,
    slo=Slo(99, 100),
    quality=Quality("MSE", 72, "robot pushing, frames 2 to 9; the suite names no unit, likely the sum over a frame"),
    citation="Finn et al. 2016, Unsupervised Learning for Physical Interaction, NIPS (arXiv:1605.07157)",
    origin="The authors' network, which AIBench's TensorFlow code runs. What AIBench measured is its PyTorch code, "
    "DDPAE on Moving MNIST, so the MSE of 72 is likely not this network's.",
    locustfile="video_prediction",
    build=build,
    samples=samples,
    dataset=push.KEY,
    read=read,
    labelled=labelled,
)
