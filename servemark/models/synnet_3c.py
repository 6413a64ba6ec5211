"""synNet-3c: AI Matrix's second synthetic network, 78 convolutions with three branches at its start.

AI Matrix, macro_benchmark/CNN_Tensorflow/nvcnn.py: image classification, like `synnet`. Its mix of kernels is that of
AI Matrix's layer benchmark, most of them 1 x 1.
"""

from servemark.models.synnet import Sizes, chain, convolution, synthetic
from servemark.workload import Module, Variant

STEMS = ((11, 4, 512), (7, 2, 813))
"""Kernel, stride and width of the two branches of one convolution."""
THIRD = ((3, 2, 79),)
SECOND_GROUP = ((3, 25, 91),)
GROUPS = (
    ((3, 232, 76, 223, 9), (1, 201)),
    ((5, 27, 418, 457, 18), (3, 24, 585, 96, 150, 135), (1, 859, 30, 219, 44, 410, 180, 195, 533)),
    (
        (5, 152, 243, 77),
        (3, 41, 681, 147, 14, 592, 111, 89, 47, 96, 193, 734, 409, 77),
        (1, 135, 169, 447, 65, 330, 110, 120, 328, 392, 185, 108, 204, 159, 226, 560, 580, 91, 17, 824, 295, 44, 192),
    ),
)
LAST = ((3, 394, 178), (1, 79, 280, 458, 137, 756, 263, 880, 59, 902, 68))


def network(sizes: Sizes) -> Module:
    """Define synNet-3c: image [B, 3, side, side] -> logits [B, classes]."""
    import torch
    from torch import nn

    class SynNet3c(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            (first, second), pool = (width for *_, width in STEMS), nn.MaxPool2d(2)
            self.first, self.second = (convolution(3, width, kernel, stride=stride) for kernel, stride, width in STEMS)
            third, width = chain(3, THIRD)
            self.third = nn.Sequential(third, pool)
            group, width = chain(second + width, SECOND_GROUP)
            self.joined = nn.Sequential(group, pool)
            layers: list[nn.Module] = []
            width += first
            for widths in GROUPS:
                group, width = chain(width, widths)
                layers += [group, pool]
            group, width = chain(width, LAST)
            cells = (sizes.side // 32) ** 2
            self.rest = nn.Sequential(*layers, group, nn.Flatten(), nn.Linear(width * cells, sizes.classes))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            joined = self.joined(torch.cat([self.second(image), self.third(image)], dim=1))
            logits: torch.Tensor = self.rest(torch.cat([joined, self.first(image)], dim=1))
            return logits

    return SynNet3c()


WORKLOAD = synthetic(
    "synnet_3c",
    "synNet-3c",
    full=Variant(Sizes(), parameters=25_686_645, flops=35_019_896_828),
    network=network,
)
