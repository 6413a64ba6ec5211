"""A workload of given tensors, without a network."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NoReturn

from servemark.workload import Tensor, Workload


def any_workload(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, name: str = "any", max_batch: int = 8, **changes: Any
) -> Workload:
    """One that a server would describe so, unless it is changed."""
    known: dict[str, Any] = {"build": _none, "samples": lambda _: repeat({}), "served": True, **changes}
    return Workload(name=name, title=name, inputs=tuple(inputs), outputs=tuple(outputs), max_batch=max_batch, **known)


def _none() -> NoReturn:
    raise AssertionError("it has no network")
