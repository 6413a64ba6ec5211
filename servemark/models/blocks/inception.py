"""Inception networks' parts: facenet's and the encoder of image_caption_im2txt.

Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision" (CVPR).
"""

from typing import TYPE_CHECKING

from servemark.workload import Module

if TYPE_CHECKING:
    from torch import nn

WIDTH = 2048
"""Of Inception-v3's features."""
POOLED = (32, 64, 64)
"""Width behind the pooling of the blocks of 35 x 35."""
FACTORISED = (128, 160, 160, 192)
"""Width between the 1x7 and 7x1 kernels of the blocks of 17 x 17."""
REPEATS = (len(POOLED), len(FACTORISED), 2)


def convolution(
    inputs: int, width: int, kernel: int | tuple[int, int] = 1, *, stride: int = 1, same: bool = False
) -> "nn.Sequential":
    """Convolve, normalise, rectify; `same` keeps the size of the picture."""
    from torch import nn

    height, length = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = (height // 2, length // 2) if same else 0
    return nn.Sequential(
        nn.Conv2d(inputs, width, (height, length), stride, padding, bias=False),
        nn.BatchNorm2d(width, eps=1e-3),
        nn.ReLU(inplace=True),
    )


def concat(*branches: Module) -> Module:
    """Join the branches' channels."""
    import torch
    from torch import nn

    class Concat(nn.ModuleList):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([branch(x) for branch in self], dim=1)

    return Concat(branches)


def inception_v3(divisor: int = 1, repeats: tuple[int, int, int] = REPEATS) -> Module:
    """Define the trunk in torchvision's form: image [B, 3, H, W] -> features [B, 2048 / divisor], H and W >= 75.

    Parameters are in torchvision's order, without its classifiers. `divisor` narrows all layers; `repeats` takes the
    first blocks of each of the three sizes.
    """
    from torch import nn

    def conv(
        inputs: int, width: int, kernel: int | tuple[int, int] = 1, *, stride: int = 1, same: bool = True
    ) -> nn.Sequential:
        narrow = inputs if inputs == 3 else inputs // divisor
        return convolution(narrow, width // divisor, kernel, stride=stride, same=same and stride == 1)

    def chain(inputs: int, *layers: tuple[int, int | tuple[int, int]], last_stride: int = 1) -> nn.Sequential:
        found: list[nn.Module] = []
        for index, (width, kernel) in enumerate(layers):
            found.append(conv(inputs, width, kernel, stride=last_stride if index == len(layers) - 1 else 1))
            inputs = width
        return nn.Sequential(*found)

    def pooled(inputs: int, width: int) -> nn.Sequential:
        return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), conv(inputs, width))

    def block35(inputs: int, width: int) -> nn.Module:
        long = chain(inputs, (64, 1), (96, 3), (96, 3))
        return concat(conv(inputs, 64), chain(inputs, (48, 1), (64, 5)), long, pooled(inputs, width))

    def block17(inputs: int, width: int) -> nn.Module:
        there, back = (1, 7), (7, 1)
        short = chain(inputs, (width, 1), (width, there), (192, back))
        long = chain(inputs, (width, 1), (width, back), (width, there), (width, back), (192, there))
        return concat(conv(inputs, 192), short, long, pooled(inputs, 192))

    def block8(inputs: int) -> nn.Module:
        def split() -> nn.Module:
            return concat(conv(384, 384, (1, 3)), conv(384, 384, (3, 1)))

        short = nn.Sequential(conv(inputs, 384), split())
        long = nn.Sequential(chain(inputs, (448, 1), (384, 3)), split())
        return concat(conv(inputs, 320), short, long, pooled(inputs, 192))

    def reduction17(inputs: int) -> nn.Module:
        long = chain(inputs, (64, 1), (96, 3), (96, 3), last_stride=2)
        return concat(conv(inputs, 384, 3, stride=2), long, nn.MaxPool2d(3, stride=2))

    def reduction8() -> nn.Module:
        long = chain(768, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3), last_stride=2)
        return concat(chain(768, (192, 1), (320, 3), last_stride=2), long, nn.MaxPool2d(3, stride=2))

    first, second, third = repeats
    of_35 = [192, *(224 + width for width in POOLED[:first])]
    of_17 = [of_35[-1] + 480, *[768] * second]
    of_8 = [1280, *[WIDTH] * third]
    return nn.Sequential(
        *(conv(3, 32, 3, stride=2), conv(32, 32, 3, same=False), conv(32, 64, 3), nn.MaxPool2d(3, stride=2)),
        *(conv(64, 80), conv(80, 192, 3, same=False), nn.MaxPool2d(3, stride=2)),
        *map(block35, of_35, POOLED[:first]),
        *(reduction17(of_35[-1]), *map(block17, of_17, FACTORISED[:second])),
        *(reduction8(), *map(block8, of_8[:third])),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
