"""A workload of given tensors, as a server would describe it."""

from itertools import repeat
from typing import NoReturn

from servemark.workload import Tensor, Workload


def any_workload(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *, max_batch: int = 8) -> Workload:
    return Workload(
        name="any",
        title="any",
        inputs=inputs,
        outputs=outputs,
        max_batch=max_batch,
        build=_none,
        samples=lambda _: repeat({}),
        served=True,
    )


def _none() -> NoReturn:
    raise AssertionError("it has no network")
