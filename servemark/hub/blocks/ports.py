"""Inputs and outputs of libraries' models, and what each input holds."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from servemark.errors import OptionError

ALONG_WITH_IDS = {"mask", "context"}
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
    vocabulary: int = 0
    pad: int = 0
    first: int | None = None
    last: int | None = None
    longest: int | None = None
    """The most ids that the model has positions for; None: any number."""


Shapes = Mapping[str, tuple[int, ...]]
"""Sizes that were asked for, by the input's name."""


def sized(inputs: Sequence[Port], shapes: Shapes) -> tuple[Port, ...]:
    """Give inputs the sizes that were asked for; what goes along with ids is as long as they. Raises OptionError."""
    free = {port.name: port for port in inputs if port.holds not in ALONG_WITH_IDS}
    for name, shape in shapes.items():
        asked = f"--shape {name}:{','.join(map(str, shape))}"
        if name not in free:
            raise OptionError(
                f"{asked}: {name!r} is not an input with a size of its own", fix=f"one of {', '.join(free)}"
            )
        port = free[name]
        if len(shape) != len(port.shape) or 0 in shape:
            raise OptionError(f"{asked}: it has {len(port.shape)} sizes from 1 on", fix=f"like {_written(port)}")
        if port.longest and shape[0] > port.longest:
            raise OptionError(
                f"{asked}: the model has positions for {port.longest} ids", fix=f"--shape {name}:{port.longest}"
            )
    ids = next((port.name for port in inputs if port.holds == "ids"), "")
    asked_of = {port.name: ids if port.holds in ALONG_WITH_IDS else port.name for port in inputs}
    return tuple(msgspec.structs.replace(port, shape=shapes.get(asked_of[port.name], port.shape)) for port in inputs)


def _written(port: Port) -> str:
    return f"--shape {port.name}:{','.join(map(str, port.shape))}"
