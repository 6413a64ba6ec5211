"""The operators that a model calls, in order, each with its kernel: seen by a dispatch mode while the model runs once.

Views move nothing, and are left out. A recurrent layer, which PyTorch splits into many calls, is one kernel.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels.measurement.case import Case
from kernels.tracing.mapping import RECURRENT, case_of, recurrent_cases

if TYPE_CHECKING:
    import torch

_NO_WORK = {"_unsafe_view", "_reshape_alias", "detach", "lift_fresh", "alias", "empty", "empty_strided", "empty_like"}
"""They move nothing, and their schemas do not say so."""


@dataclass(frozen=True)
class Call:
    """One call of an operator."""

    operator: str
    """As the profiler names it: "aten::addmm"."""
    cases: tuple[Case, ...] = ()
    """The kernels that it stands for. None of a part of a recurrent layer, whose first call has the layers."""
    reason: str | None = None
    """Reason why it has no kernel. None: it has one, or is a part of one."""
    parameters: tuple[str, ...] = ()
    """Names of the model's parameters among its inputs, by which calls with the same weights are known."""

    @property
    def name(self) -> str:
        """With the reason: "aten::clone (to another layout)"."""
        return f"{self.operator} ({self.reason})" if self.reason else self.operator


def calls_of(run: Callable[[], object], parameters: "Iterable[tuple[str, torch.Tensor]]" = ()) -> list[Call]:
    """Run once, and list the calls. Not in inference mode, which hides what some are made of.

    `parameters` are the model's, by name. A view of one is that one, because they share their memory.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[Call] = []
    layer: list[tuple[Case, ...]] = []
    named = {each.untyped_storage().data_ptr(): name for name, each in parameters}

    def among(arguments: Iterable[object]) -> tuple[str, ...]:
        if not named:
            return ()
        memory = (each.untyped_storage().data_ptr() for each in _tensors(arguments))
        return tuple(dict.fromkeys(named[each] for each in memory if each in named))

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            name = getattr(function, "__name__", "")
            cases = recurrent_cases(name, args) if name in RECURRENT and not kwargs else []
            if not cases:
                return function(*args, **(kwargs or {}))
            begun = len(found)
            layer.append(())
            try:
                return function(*args)
            finally:
                layer.pop()
                names = among(args)
                found[begun : begun + 1] = [
                    Call(each.operator, tuple(cases), parameters=names) for each in found[begun : begun + 1]
                ]

    class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch gives it none
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            name = func._schema.name
            bare = name.partition("::")[2]
            if func.is_view or bare in _NO_WORK:
                return result
            if layer:
                found.append(Call(name))
                return result
            given = {argument.name: argument.default_value for argument in func._schema.arguments}
            given |= dict(zip(given, args, strict=False)) | (kwargs or {})
            case = case_of(bare, given, result)
            found.append(Call(name, reason=case) if isinstance(case, str) else Call(name, (case,), None, among(args)))
            return result

    with torch.no_grad(), Operators(), Functions():  # type: ignore[no-untyped-call]
        run()
    return found


def _tensors(arguments: Iterable[object]) -> "Iterator[torch.Tensor]":
    """Yield the tensors among arguments and in lists of them."""
    import torch

    for each in arguments:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from _tensors(each)
