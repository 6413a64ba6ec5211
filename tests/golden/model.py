"""The golden server's model: it gives its inputs back, or answers that are known, or falsifies either."""

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from tests.golden.tensors import NUMPY, WRONG_DATATYPE, Request, Tensor, Value, unpack_bytes


def compute(request: Request, tensors: tuple[Tensor, ...]) -> list[Value]:
    """Run the model: output i is input i where datatype and shape fit, else zeros (empty strings for BYTES)."""
    results = []
    for index, tensor in enumerate(tensors):
        source = request.values[index] if index < len(request.values) else None
        dims = source.shape[len(request.lead) :] if source is not None else []
        fits = source is not None and source.datatype == tensor.datatype and len(dims) == len(tensor.dims)
        if source is not None and fits and all(w in {-1, g} for w, g in zip(tensor.dims, dims, strict=True)):
            results.append(source._replace(name=tensor.name))
            continue
        shape = [*request.lead, *(1 if dim == -1 else dim for dim in tensor.dims)]
        width = 4 if tensor.datatype == "BYTES" else np.dtype(NUMPY[tensor.datatype]).itemsize
        results.append(Value(tensor.name, tensor.datatype, shape, bytes(width * math.prod(shape))))
    return results


class Answers(NamedTuple):
    """Known answers to known inputs, as a model repository's golden.npz holds them."""

    rows: dict[bytes, int]
    outputs: dict[str, "np.ndarray[Any, Any]"]

    @classmethod
    def read(cls, path: str, inputs: tuple[Tensor, ...]) -> "Answers":
        """Load arrays named input:<name> and output:<name>, one row per sample."""
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        columns = [arrays[f"input:{tensor.name}"] for tensor in inputs]
        rows = {
            b"".join(row.tobytes() for row in sample): number
            for number, sample in enumerate(zip(*columns, strict=True))
        }
        return cls(rows, {name.removeprefix("output:"): array for name, array in arrays.items()})

    def compute(self, request: Request, tensors: tuple[Tensor, ...]) -> list[Value]:
        """Answer each row of the batch; inputs that are not known get the first answer."""
        widths = [len(value.raw) // request.batch for value in request.values]
        samples = [
            b"".join(v.raw[row * width : (row + 1) * width] for v, width in zip(request.values, widths, strict=True))
            for row in range(request.batch)
        ]
        chosen = [self.rows.get(sample, 0) for sample in samples]
        answers = [(t, self.outputs[t.name][chosen]) for t in tensors]
        return [Value(t.name, t.datatype, list(answer.shape), answer.tobytes()) for t, answer in answers]


def spoil(value: Value, kind: str) -> Value:
    """Falsify an output: its shape (last dimension off by one, data to match), its datatype, or its values."""
    if kind == "wrong_datatype":
        return value._replace(datatype=WRONG_DATATYPE[value.datatype])
    if value.datatype == "BYTES":
        items: Any = np.array(unpack_bytes(value.raw), dtype=object).reshape(value.shape)
    else:
        items = np.frombuffer(value.raw, dtype=NUMPY[value.datatype]).reshape(value.shape)
    if kind == "wrong_shape":
        items = items[..., :-1] if value.shape[-1] > 1 else np.concatenate([items, items], axis=-1)
    elif kind == "wrong_value":
        items = items + b"!" if value.datatype == "BYTES" else ~items if value.datatype == "BOOL" else items + 1
    if value.datatype == "BYTES":
        raw = b"".join(struct.pack("<I", len(item)) + item for item in items.ravel())
    else:
        raw = items.astype(NUMPY[value.datatype]).tobytes()
    return value._replace(shape=list(items.shape), raw=raw)
