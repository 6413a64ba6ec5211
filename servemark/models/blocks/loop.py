"""Loops whose number of steps depends on the data, in eager PyTorch and in what is exported from it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch

TensorTuple: TypeAlias = "tuple[torch.Tensor, ...]"


def repeat_while(
    condition: "Callable[..., torch.Tensor]", body: Callable[..., TensorTuple], carried: TensorTuple
) -> TensorTuple:
    """Apply `body` while `condition` holds: a loop of Python, in an export torch's while_loop.

    torch.export keeps that, and the ONNX exporter turns it into a Loop that ends when the condition says so.
    """
    import torch
    from torch._higher_order_ops.while_loop import while_loop

    if torch.compiler.is_exporting():
        result: TensorTuple = while_loop(condition, body, carried)  # type: ignore[no-untyped-call]  # torch gives it none
        return result
    while condition(*carried):
        carried = body(*carried)
    return carried
