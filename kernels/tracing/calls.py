"""The operators that a model calls, in order, each with its kernel: seen by a dispatch mode while the model runs once.

Views move nothing, and are left out. A recurrent layer, which PyTorch splits into many calls, is one kernel. A call
without a kernel of its sizes has the reason. Biases of convolutions and what in-place operators save are left out. A
transposed convolution is what it is in oneDNN and cuDNN: the gradient of a convolution to its data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from kernels.families.pooling import Pooling
from kernels.measurement.case import Case

if TYPE_CHECKING:
    import torch

Arguments = Mapping[str, Any]
Found = Case | str
"""A kernel, or why no family has it ("" where none has anything like it)."""
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


def case_of(operator: str, arguments: Arguments, result: object) -> Found:
    """The kernel of a call, by the operator's name without namespace and overload, and its arguments by name."""
    import torch

    mapped = _MAPPED.get(operator.removesuffix("_") if operator != "copy_" else operator)
    first = result[0] if isinstance(result, tuple) and result else result
    if mapped is None or not isinstance(first, torch.Tensor):
        return ""
    if first.dtype != torch.float32:
        return f"of {str(first.dtype).removeprefix('torch.')}"
    return mapped(arguments, first) if first.numel() else "of nothing"


def _addmm(given: Arguments, _: "torch.Tensor") -> Found:
    right, left = given["mat1"], given["mat2"]
    if given["self"].dim() == 1 and _transposed(left) and not _transposed(right):
        return Case.of("fully_connected", batch=right.shape[0], inputs=right.shape[1], outputs=left.shape[1])
    return _product(right, left)


def _product(right: "torch.Tensor", left: "torch.Tensor") -> Found:
    """`right` [n, k] times `left` [k, m], maybe of a batch, as the family `gemm` calls them."""
    batch = right.shape[0] if right.dim() == 3 else 1
    n, k, m = right.shape[-2], right.shape[-1], left.shape[-1]
    return Case.of("gemm", m=m, n=n, k=k, a_t=_transposed(left), b_t=_transposed(right), batch=batch)


def _transposed(matrix: "torch.Tensor") -> bool:
    return matrix.stride(-2) == 1 and matrix.stride(-1) != 1


def _convolution(given: Arguments, result: "torch.Tensor") -> Found:
    data, weight = given["input"], given["weight"]
    dimensions = data.dim() - 2
    if dimensions not in {1, 2, 3}:
        return f"of {dimensions} dimensions"
    stride, padding, dilation = (
        tuple(given[name]) * (dimensions if len(given[name]) == 1 else 1) for name in ("stride", "padding", "dilation")
    )
    last = dimensions > 1 and not data.is_contiguous() and _channels_last(data)
    sizes: dict[str, Any] = {
        "n": data.shape[0],
        "filter": tuple(weight.shape[2:]),
        "padding": padding,
        "stride": stride,
        "groups": given["groups"],
        "layout": "NHWC" if last else "NCHW",
    }
    if set(dilation) != {1}:
        sizes["dilation"] = dilation
    if given["transposed"]:
        into: dict[str, Any] = {"c": result.shape[1], "k": data.shape[1], "size": tuple(result.shape[2:])}
        return Case.of("convolution", **sizes, **into, direction="backward_data")
    return Case.of("convolution", **sizes, c=data.shape[1], k=weight.shape[0], size=tuple(data.shape[2:]))


def _channels_last(data: "torch.Tensor") -> bool:
    import torch

    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return data.dim() in formats and data.is_contiguous(memory_format=formats[data.dim()])


def _batch_norm(given: Arguments, result: "torch.Tensor") -> Found:
    if given.get("training"):
        return "with the batch's own statistics"
    if not given["input"].is_contiguous():
        return "channels last"
    n, c, *rest = result.shape
    h, w = rest if len(rest) == 2 else (prod(rest), 1)
    return Case.of("batch_norm", n=n, c=c, h=h, w=w)


def _layer_norm(given: Arguments, result: "torch.Tensor") -> Found:
    width = prod(given["normalized_shape"])
    return Case.of("layer_norm", rows=result.numel() // width, width=width)


def _softmax(given: Arguments, result: "torch.Tensor") -> Found:
    if given["dim"] not in {-1, result.dim() - 1}:
        return "over a dimension that is not the last"
    return Case.of("softmax", rows=result.numel() // result.shape[-1], width=result.shape[-1])


def _activation(function: str) -> "Callable[[Arguments, torch.Tensor], Found]":
    def mapped(given: Arguments, result: "torch.Tensor") -> Found:
        if given.get("approximate", "none") != "none":
            return "by tanh"
        return Case.of("activation", function=function, length=result.numel())

    return mapped


def _element_wise(operation: str) -> "Callable[[Arguments, torch.Tensor], Found]":
    def mapped(given: Arguments, result: "torch.Tensor") -> Found:
        import torch

        first, second = given["self"], given["other"]
        if not isinstance(second, torch.Tensor) or second.numel() == 1 < result.numel():
            return Case.of("memory", operation="scale", length=result.numel())
        if first.shape != second.shape or first.stride() != second.stride():
            return "of unequal shapes or layouts"
        return Case.of("element_wise", operation=operation, length=result.numel())

    return mapped


def _copy(given: Arguments, result: "torch.Tensor") -> Found:
    source = given["src"] if "src" in given else given["self"]
    if source.dtype != result.dtype:
        return "to another type"
    if source.shape != result.shape or source.stride() != result.stride():
        return "to another layout"
    return Case.of("memory", operation="copy", length=result.numel())


def _cat(given: Arguments, result: "torch.Tensor") -> Found:
    if not all(each.is_contiguous() for each in given["tensors"]):
        return "of another layout"
    return Case.of("memory", operation="copy", length=result.numel())


def _average_pool(given: Arguments, result: "torch.Tensor") -> Found:
    without = not given["count_include_pad"] and set(given["padding"]) != {0}
    return "without the padding" if without or given["divisor_override"] else _pooled("average", given, result)


def _pooled(kind: str, given: Arguments, result: "torch.Tensor") -> Found:
    data = given["self"]
    window, padding = set(given["kernel_size"]), set(given["padding"])
    stride = set(given["stride"] or given["kernel_size"])
    if data.dim() != 4 or max(map(len, (window, padding, stride))) > 1:
        return "of windows that are not square"
    if not data.is_contiguous():
        return "channels last"
    n, c, h, w = data.shape
    sizes = {"n": n, "c": c, "h": h, "w": w, "window": window.pop(), "stride": stride.pop(), "padding": padding.pop()}
    case = Case.of("pooling", kind=kind, **sizes)
    assert isinstance(case.kernel, Pooling)
    return case if case.kernel.output_size() == tuple(result.shape[2:]) else "with part of a window at the edge"


def _index_select(given: Arguments, _: "torch.Tensor") -> Found:
    table = given["self"]
    if table.dim() != 2 or given["dim"] != 0 or not table.is_contiguous():
        return "not of a table's rows"
    return _rows(table, given["index"])


def _rows(table: "torch.Tensor", indices: "torch.Tensor") -> Case:
    return Case.of("embedding", rows=table.shape[0], width=table.shape[1], lookups=indices.numel())


def _attention(given: Arguments, _: "torch.Tensor") -> Found:
    if given["is_causal"] or given.get("attn_mask") is not None:
        return "with a mask"
    batch, heads, queries, width = given["query"].shape
    keys = given["key"].shape[2]
    return Case.of("attention", batch=batch, heads=heads, queries=queries, keys=keys, width=width)


_MAPPED: "dict[str, Callable[[Arguments, torch.Tensor], Found]]" = {
    **dict.fromkeys(("mm", "bmm"), lambda given, _: _product(given["self"], given["mat2"])),
    "addmm": _addmm,
    "baddbmm": lambda given, _: _product(given["batch1"], given["batch2"]),
    "mv": lambda given, _: _product(given["vec"][None], given["self"].mT),
    "convolution": _convolution,
    "native_batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "native_layer_norm": _layer_norm,
    "_softmax": _softmax,
    **{function: _activation(function) for function in ("relu", "sigmoid", "tanh", "gelu")},
    **{operation: _element_wise(operation) for operation in ("add", "sub", "mul", "div", "maximum")},
    **dict.fromkeys(("clone", "copy_", "_to_copy"), _copy),
    "cat": _cat,
    "max_pool2d_with_indices": lambda given, result: (
        "dilated" if set(given["dilation"]) != {1} else _pooled("max", given, result)
    ),
    "avg_pool2d": _average_pool,
    "embedding": lambda given, _: _rows(given["weight"], given["indices"]),
    "index_select": _index_select,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
}

RECURRENT = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "vanilla"}
"""PyTorch's functions of whole layers, which it splits into others."""


def recurrent_cases(function: str, arguments: tuple[Any, ...]) -> list[Case]:
    """The layers of a call of `torch.lstm` and its like, one for each layer and way; none of packed sequences."""
    import torch

    data, states, weights, *options = arguments
    if not isinstance(options[0], bool) or not isinstance(data, torch.Tensor) or data.dim() != 3:
        return []
    biases, layers, _, _, both_ways, batch_first = options
    if not biases:
        return []
    batch, timesteps = data.shape[:2] if batch_first else (data.shape[1], data.shape[0])
    state = states if isinstance(states, torch.Tensor) else states[0]
    hidden, ways = state.shape[-1], 2 if both_ways else 1
    sizes: dict[str, Any] = {"cell": RECURRENT[function], "hidden": hidden, "batch": batch, "timesteps": timesteps}
    widths = [weights[0].shape[1], *[hidden * ways] * (layers - 1)]
    return [
        Case.of("recurrent", **sizes, inputs=0 if width == hidden else width) for width in widths for _ in range(ways)
    ]
