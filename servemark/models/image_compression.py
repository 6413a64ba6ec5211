"""Recurrent image compression: a picture into 16 layers of bits and back (AIBench DC-AI-C12).

Toderici et al. 2017, "Full Resolution Image Compression with Recurrent Neural Networks" (CVPR): the convolutional LSTM
with additive reconstruction; no entropy coder. Each of 16 iterations codes what the ones before left over. It has 32
bits for each 16 x 16 block of pixels: 2 bits per pixel in all. The served graph encodes and decodes, since the encoder
needs the decoder's last picture anyway.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from servemark.datasets import kodak
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis import images
from servemark.workload import (
    Agreement,
    Example,
    InOrder,
    LabelledSet,
    Module,
    Quality,
    Sample,
    Slo,
    Tensor,
    Variant,
    define,
)

BLOCK = 16
"""Pixels a side for which one iteration sends one code."""
GAIN, ADDED_STD, PROBE_SIDE = 2.0, 0.01, 32


@dataclass(frozen=True)
class Sizes:
    """All widths relative to the published model's 64, bits of one code, iterations, side in pixels."""

    width: int = 64
    bits: int = 32
    iterations: int = 16
    side: int = 256


def network(sizes: Sizes) -> Module:
    """Define the codec: image [B, 3, S, S] in [0, 1] -> codes [B, iterations, bits, S/16, S/16] of 0 and 1, image."""
    import torch
    from torch import nn

    width = sizes.width

    class ConvLstm(nn.Module):
        """A ConvLSTM cell without biases; only its input is strided."""

        def __init__(self, inputs: int, outputs: int, *, stride: int = 1, hidden_kernel: int = 1) -> None:
            super().__init__()
            self.conv_ih = nn.Conv2d(inputs, 4 * outputs, 3, stride=stride, padding=1, bias=False)
            self.conv_hh = nn.Conv2d(outputs, 4 * outputs, hidden_kernel, padding=hidden_kernel // 2, bias=False)

        def forward(
            self, features: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            write, forget, new, output = (self.conv_ih(features) + self.conv_hh(hidden)).chunk(4, dim=1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(write) * torch.tanh(new)
            return torch.sigmoid(output) * torch.tanh(cell), cell

    class Codec(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder_conv = nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False)
            self.encoder = nn.ModuleList(
                [
                    ConvLstm(width, 4 * width, stride=2),
                    ConvLstm(4 * width, 8 * width, stride=2),
                    ConvLstm(8 * width, 8 * width, stride=2),
                ]
            )
            self.binarizer = nn.Conv2d(8 * width, sizes.bits, 1, bias=False)
            self.decoder_conv = nn.Conv2d(sizes.bits, 8 * width, 1, bias=False)
            self.decoder = nn.ModuleList(
                [
                    ConvLstm(8 * width, 8 * width),
                    ConvLstm(2 * width, 8 * width),
                    ConvLstm(2 * width, 4 * width, hidden_kernel=3),
                    ConvLstm(width, 2 * width, hidden_kernel=3),
                ]
            )
            self.shuffle = nn.PixelShuffle(2)
            self.picture = nn.Conv2d(width // 2, 3, 1, bias=False)

        def start(self, image: torch.Tensor, widths: Sequence[int], scales: Sequence[int]) -> list[torch.Tensor]:
            """Make the states (hidden, cell) that LSTMs on pictures of 1 / scale begin with: zeros."""
            states = []
            for channels, scale in zip(widths, scales, strict=True):
                side = image.shape[2] // scale
                states += [image.new_zeros(image.shape[0], channels * width, side, side)] * 2
            return states

        def encode(self, residual: torch.Tensor, states: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
            """Code what is left over: bits [B, bits, S/16, S/16] as truth values, and the new states."""
            features, new = self.encoder_conv(residual), []
            for index, lstm in enumerate(self.encoder):
                features, cell = lstm(features, *states[2 * index : 2 * index + 2])
                new += [features, cell]
            return self.binarizer(features) >= 0, new  # the published tanh before the sign changes no sign

        def unfold(self, code: torch.Tensor, states: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
            """Unfold bits to features of the picture's size [B, width / 2, S, S], and the new states."""
            features, new = self.decoder_conv(code.to(states[0].dtype) * 2 - 1), []
            for index, lstm in enumerate(self.decoder):
                hidden, cell = lstm(features, *states[2 * index : 2 * index + 2])
                features = self.shuffle(hidden)
                new += [hidden, cell]
            return features, new

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            residual, picture, codes = image - 0.5, torch.full_like(image, 0.5), []
            encoder = self.start(image, (4, 8, 8), scales=(4, 8, 16))
            decoder = self.start(image, (8, 8, 4, 2), scales=(16, 8, 4, 2))
            for _ in range(sizes.iterations):
                code, encoder = self.encode(residual, encoder)
                features, decoder = self.unfold(code, decoder)
                added = torch.tanh(self.picture(features)) / 2
                residual, picture = residual - added, picture + added
                codes.append(code)
            # cast once, at the end: TensorRT has bytes at inputs and outputs only
            return torch.stack(codes, dim=1).to(torch.uint8), picture.clamp(0, 1)

    return Codec()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that all bits depend on the picture and each iteration adds ADDED_STD to it.

    Untrained, it codes pictures into balanced bits and these into a picture, but not into the one that was sent.
    """
    import torch
    from torch import nn

    picture = next(samples(replace(sizes, side=PROBE_SIDE), np.random.default_rng(0)))["image"]
    with seeded(name), torch.no_grad():
        model = network(sizes)
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_normal_(module.weight, gain=GAIN)
        last = model.get_submodule("picture")
        seen: list[torch.Tensor] = []
        hook = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        weight = last.get_parameter("weight")
        nn.init.zeros_(weight)
        model(torch.from_numpy(picture)[None])
        hook.remove()
        strength = torch.stack(seen).square().sum(dim=2).mean().sqrt()  # of a pixel's features, over all iterations
        nn.init.normal_(weight, std=2 * ADDED_STD / float(strength))
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw pictures with the statistics of natural images, in [0, 1]."""
    while True:
        yield {"image": images.picture(rng, sizes.side, sizes.side)}


def read(path: Path) -> Iterator[Sample]:
    """Make one request of each tile of the Kodak images. Raises InputDataError naming the file."""
    for tile in kodak.read_tiles(path, Sizes().side):
        yield {"image": np.ascontiguousarray(tile)}


def labelled(path: Path) -> LabelledSet:
    """The same tiles, which are to come back. Raises InputDataError naming the file."""
    tiles = InOrder(lambda: read(path))

    def example(index: int) -> Example:
        tile = tiles[index]
        return Example((tile,), tile["image"])

    return LabelledSet(len(tiles), example, lambda outputs, _label: outputs["reconstruction"])


WORKLOAD = define(
    "image_compression",
    "Recurrent image compression (convolutional LSTM, additive)",
    full=Variant(
        Sizes(),
        parameters=35_456_800,
        flops=1_513_204_219_904,
        # of 131,072 bits a few may lie so near 0 that rounding decides them; each moves the pixels around it by 0.004,
        # as far as untrained networks' pictures differ; at half the width, an error of 1e-3 in the picture flips 0.2 %
        # of the bits, which therefore are what is judged
        agreement=Agreement(spread_rtol=1.0, min_match=0.999),
    ),
    tiny=Variant(Sizes(width=4, bits=4, iterations=2, side=32), parameters=138_738, flops=11_673_600),
    task="image compression",
    suites=("AIBench DC-AI-C12",),
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: (
        Tensor("codes", "UINT8", (sizes.iterations, sizes.bits, sizes.side // BLOCK, sizes.side // BLOCK)),
        Tensor("reconstruction", "FP32", (3, sizes.side, sizes.side)),
    ),
    max_batch=8,
    slo=Slo(99, 250),
    quality=Quality("MS-SSIM", 0.99, "Kodak images (the suite names ImageNet), all iterations, 2 bits per pixel"),
    citation="Toderici et al. 2017, Full Resolution Image Compression with RNNs, CVPR (arXiv:1608.05148)",
    origin="The PyTorch port that AIBench's code is, without the entropy coder of its report. AIBench trains on 32 x "
    "32 patches; 256 x 256 and 16 iterations are this suite's choice, of 64 times the work.",
    locustfile="image_compression",
    build=build,
    samples=samples,
    dataset=kodak.KEY,
    read=read,
    labelled=labelled,
)
