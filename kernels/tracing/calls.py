"""The operators that a model calls, in order, each with its kernel: seen by a dispatch mode while the model runs once.

Views move nothing, and are left out. A recurrent layer, which PyTorch splits into many calls, is one kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.measurement.case import Case
from kernels.tracing.mapping import RECURRENT, case_of, recurrent_cases

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

    @property
    def name(self) -> str:
        """With the reason: "aten::clone (to another layout)"."""
        return f"{self.operator} ({self.reason})" if self.reason else self.operator


def calls_of(run: Callable[[], object]) -> list[Call]:
    """Run once, and list the calls. Not in inference mode, which hides what some are made of."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[Call] = []
    layer: list[tuple[Case, ...]] = []

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
                found[begun : begun + 1] = [Call(each.operator, tuple(cases)) for each in found[begun : begun + 1]]

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
            found.append(Call(name, reason=case) if isinstance(case, str) else Call(name, (case,)))
            return result

    with torch.no_grad(), Operators(), Functions():  # type: ignore[no-untyped-call]
        run()
    return found
