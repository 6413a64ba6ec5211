"""GoogLeNet as its paper has it: 5x5 convolutions, local response normalisation, no BatchNorm (AI Matrix, variant).

Szegedy et al. 2015, "Going Deeper with Convolutions" (CVPR), in the form of Caffe's `bvlc_googlenet`, which AI Matrix
runs: biases, poolings whose last window may overhang, two local response normalisations over 5 channels. The two
auxiliary heads only serve training and are left out.
"""

from servemark.models.blocks.classification import classification
from servemark.models.googlenet import CITATION, INCEPTIONS, Sizes
from servemark.workload import Module, Variant

CHANNELS, ALPHA, BETA = 5, 1e-4, 0.75
"""Of a normalisation: neighbours that it looks at, its weight and its power (Krizhevsky et al. 2012, section 3.3)."""


def network(sizes: Sizes) -> Module:
    """Define GoogLeNet: image [B, 3, side, side] -> logits [B, classes]."""
    import torch
    from torch import nn

    def narrow(width: int) -> int:
        return max(8, width // sizes.divisor)

    class Conv(nn.Sequential):
        def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
            super().__init__(nn.Conv2d(inputs, outputs, size, stride, padding=size // 2), nn.ReLU(inplace=True))

    class Inception(nn.Module):
        def __init__(self, inputs: int, table: list[int]) -> None:
            super().__init__()
            one, three_in, three, five_in, five, pooled = table
            self.branches = nn.ModuleList(
                [
                    Conv(inputs, one, 1),
                    nn.Sequential(Conv(inputs, three_in, 1), Conv(three_in, three, 3)),
                    nn.Sequential(Conv(inputs, five_in, 1), Conv(five_in, five, 5)),
                    nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), Conv(inputs, pooled, 1)),
                ]
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([branch(x) for branch in self.branches], dim=1)

    def halve() -> nn.MaxPool2d:
        return nn.MaxPool2d(3, stride=2, ceil_mode=True)

    stem, width = narrow(64), narrow(192)
    layers: list[nn.Module] = [Conv(3, stem, 7, stride=2), halve(), nn.LocalResponseNorm(CHANNELS, ALPHA, BETA)]
    layers += [Conv(stem, stem, 1), Conv(stem, width, 3), nn.LocalResponseNorm(CHANNELS, ALPHA, BETA), halve()]
    for name, table in INCEPTIONS.items():
        if name in {"4a", "5a"}:
            layers.append(halve())
        branches = [narrow(each) for each in table]
        layers.append(Inception(width, branches))
        width = branches[0] + branches[2] + branches[4] + branches[5]
    pool = nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(*layers, pool, nn.Flatten(), nn.Dropout(0.4), nn.Linear(width, sizes.classes))


WORKLOAD = classification(
    "googlenet_lrn",
    "GoogLeNet with local response normalisation",
    CITATION,
    full=Variant(Sizes(), parameters=6_998_552, flops=3_165_343_744),
    tiny=Variant(Sizes(divisor=8, classes=10, side=64), parameters=110_198, flops=6_832_256),
    origin="Caffe's BVLC network without its auxiliary heads, which AI Matrix runs beside one with BatchNorm. AI "
    "Matrix's 70.01 % top-1 is of TensorFlow's.",
    slo_ms=10,
    network=network,
    suites=("AI Matrix, variant",),
)
