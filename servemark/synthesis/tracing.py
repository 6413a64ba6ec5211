"""Layers of a workload, found in the calls of its operators for one sample."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from kernels.families import attention, convolution, embedding, fully_connected, gemm, layer_norm, recurrent
from kernels.families.activation import Activation
from kernels.measurement.device import Device
from kernels.tracing.calls import Call
from kernels.tracing.workload import trace_apart
from servemark.synthesis.layers import Attention, Convolution, Dense, Embedding, Layer, Layers, Norm, Recurrent


def layers_of(name: str) -> Layers:
    """Trace a workload once, in a process of its own. Raises OptionError, ServerError."""
    return found_in(name, trace_apart(name, 1, Device.named("cpu"), timed=False).calls)


def found_in(name: str, calls: Sequence[Call]) -> Layers:
    """Find the layers. Calls with the same weights and sizes are one layer; each convolution is one of its own.

    A product without weights is half of an attention where the next one takes its shape.
    """
    whole = covered = 0
    found: dict[object, Layer] = {}
    owned: set[str] = set()
    before: object = None
    scores: gemm.Gemm | None = None
    for index, number, kernel, names in _kernels(calls):
        flops = kernel.full_flops() if isinstance(kernel, recurrent.Recurrent) else kernel.flops()
        whole += flops
        layer = _layer(kernel, names)
        alone = isinstance(layer, Convolution) or not names
        key: object = (index if alone else names, number, kernel)
        if layer is None and isinstance(kernel, gemm.Gemm):
            scores, first = kernel, scores
            layer = _attended(first, kernel)
            if layer is None:
                continue
            flops, scores = layer.flops, None
        if layer is None:
            continue
        covered += flops
        if isinstance(layer, Attention):
            key = (before, number, layer)
        else:
            before, scores = key, None
        if key in found:
            found[key] = replace(found[key], calls=found[key].calls + 1)
            continue
        if isinstance(layer, Dense | Embedding) and owned & {*names}:
            layer = replace(layer, tied=True)
        if isinstance(layer, Dense):
            layer = replace(layer, activation=_activation(calls[index + 1 : index + 2], layer))
        owned |= {*names}
        found[key] = replace(layer, place=index / len(calls))
    return Layers(name, tuple(found.values()), 1 - covered / max(whole, 1))


def _kernels(calls: Sequence[Call]) -> Iterator[tuple[int, int, Any, tuple[str, ...]]]:
    """Yield each kernel with the number of its call, its own within that, and the names of the call's parameters."""
    for index, call in enumerate(calls):
        for number, case in enumerate(call.cases):
            yield index, number, case.kernel, call.parameters


def _layer(kernel: Any, names: Sequence[str]) -> Layer | None:
    """Describe a kernel as a layer; None where it is not one alone."""
    found: Layer | None = None
    match kernel:
        case convolution.Convolution(direction="forward") if len(kernel.size) == 2:
            across = [_mean(each) for each in (kernel.filter, kernel.stride, kernel.size)]
            found = Convolution(across[0], across[1], kernel.c, kernel.k, across[2], kernel.groups)
        case fully_connected.FullyConnected():
            found = Dense(kernel.batch, kernel.inputs, kernel.outputs)
        case gemm.Gemm(batch=1) if names:
            found = Dense(kernel.n, kernel.k, kernel.m)
        case recurrent.Recurrent(direction="forward"):
            found = Recurrent(kernel.cell, kernel.timesteps * kernel.batch, kernel.width, kernel.hidden)
        case attention.Attention():
            found = Attention(kernel.batch * kernel.heads, kernel.queries, kernel.keys, kernel.width)
        case embedding.Embedding() if names:
            found = Embedding(kernel.rows, kernel.width, kernel.lookups)
        case layer_norm.LayerNorm():
            found = Norm(kernel.rows, kernel.width)
    return found


def _attended(first: gemm.Gemm | None, second: gemm.Gemm) -> Attention | None:
    """Join queries by keys and weights by values; None where the second product is of other sizes."""
    if first is None or (second.batch, second.n, second.k, second.m) != (first.batch, first.n, first.m, first.k):
        return None
    return Attention(first.batch, first.n, first.m, first.k)


def _activation(after: Sequence[Call], layer: Dense) -> str:
    """Name the function that the next call applies to all that a layer wrote; "" for none."""
    kernels = [case.kernel for call in after for case in call.cases]
    match kernels:
        case [Activation(length=length, function=function)] if length == layer.rows * layer.outputs:
            return str(function)
    return ""


def _mean(sides: Sequence[int]) -> int:
    """Return the geometric mean of two sides."""
    return max(round(math.sqrt(sides[0] * sides[1])), 1)
