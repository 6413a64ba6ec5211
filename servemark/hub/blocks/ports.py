"""Inputs and outputs of libraries' models, and what each input holds."""

from typing import Literal

import msgspec

Holds = Literal["picture", "ids", "mask", "context", "sound", "features", ""]


class Port(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input or output: name, datatype, shape without the batch, and of an input what it holds.

    `picture` [3, height, width] is normalised by `mean` and `std`. `ids` [length] are of a vocabulary, between the ids
    `first` and `last` where these are given, and padded with `pad`; `mask` [length] marks what is not padding, and
    `context` what follows the question. `sound` [samples] at 16 kHz has mean 0 and deviation 1. `features` are normal
    numbers.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    holds: Holds = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    resample: str = "bilinear"
    """The way in which a real picture is resized: a name of Pillow's."""
    kept: float | None = None
    """Share of the resized picture's shorter side that is kept, at its centre; None: it is resized to the shape."""
    rounded_down: bool = False
    """True if the centre's place is rounded down, as Transformers does; else to the nearest, as torchvision does."""
    vocabulary: int = 0
    pad: int = 0
    first: int | None = None
    last: int | None = None
