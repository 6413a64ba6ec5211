"""KServe v2 tensors as the golden server reads and writes them: JSON data and Triton's HTTP binary tensor extension."""

import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

NUMPY = {
    "BOOL": "?", "INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8", "UINT8": "u1", "UINT16": "u2",
    "UINT32": "u4", "UINT64": "u8", "FP16": "f2", "BF16": "u2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip
# Another datatype of the same width, so that a response lies in its datatype only.
WRONG_DATATYPE = {
    "BOOL": "UINT8", "INT8": "UINT8", "INT16": "FP16", "INT32": "FP32", "INT64": "FP64", "UINT8": "INT8",
    "UINT16": "INT16", "UINT32": "INT32", "UINT64": "INT64", "FP16": "INT16", "BF16": "INT16", "FP32": "INT32",
    "FP64": "INT64", "BYTES": "UINT8",
}  # fmt: skip


class BadRequestError(Exception):
    """A request that the model cannot take; answered with status 400."""


class Tensor(NamedTuple):
    """A tensor of the model without its batch dimension; -1 is a variable dimension."""

    name: str
    datatype: str
    dims: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "Tensor":
        """Read "NAME:FP32:3,224,224". Raises ValueError."""
        name, datatype, dims = text.split(":")
        if datatype not in WRONG_DATATYPE:
            raise ValueError(f"datatype {datatype!r} of {text!r} is not one of {', '.join(WRONG_DATATYPE)}")
        return cls(name, datatype, tuple(int(dim) for dim in dims.split(",") if dim))


class Value(NamedTuple):
    """A tensor that travels: its shape with the batch dimension, and its bytes as the binary extension has them."""

    name: str
    datatype: str
    shape: list[int]
    raw: bytes


class Request(NamedTuple):
    """A parsed inference request; `outputs` maps the wanted outputs to whether they shall be binary.

    `places` are the parameters of those that go into shared memory.
    """

    request_id: str
    batch: int
    values: list[Value]
    outputs: dict[str, bool]
    places: Mapping[str, dict[str, Any]]
    lead: tuple[int, ...]  # what shapes begin with: the batch, or nothing


def _pack(datatype: str, data: Any) -> bytes:
    if datatype == "BYTES":
        items = [str(item).encode() for item in np.ravel(np.array(data, dtype=object))]
        return b"".join(struct.pack("<I", len(item)) + item for item in items)
    return np.asarray(data, dtype=NUMPY[datatype]).tobytes()


def unpack_bytes(raw: bytes) -> list[bytes]:
    """Take BYTES elements apart, each behind its length. Raises BadRequestError."""
    items, offset = [], 0
    while offset < len(raw):
        if offset + 4 > len(raw):
            raise BadRequestError(f"BYTES data ends inside a length, at byte {offset} of {len(raw)}")
        (length,) = struct.unpack_from("<I", raw, offset)
        if offset + 4 + length > len(raw):
            raise BadRequestError(f"BYTES element at byte {offset} is longer than the data ({len(raw)} bytes)")
        items.append(raw[offset + 4 : offset + 4 + length])
        offset += 4 + length
    return items


def _elements(value: Value) -> int:
    if value.datatype == "BYTES":
        return len(unpack_bytes(value.raw))
    width = np.dtype(NUMPY[value.datatype]).itemsize
    if len(value.raw) % width:
        raise BadRequestError(f"{value.name}: {len(value.raw)} bytes are no whole number of {value.datatype}")
    return len(value.raw) // width


def _check(value: Value, tensor: Tensor, max_batch_size: int) -> None:
    if value.datatype != tensor.datatype:
        raise BadRequestError(f"{value.name}: datatype {value.datatype}, the model takes {tensor.datatype}")
    batch, *dims = value.shape or [0] if max_batch_size else [1, *value.shape]
    if len(dims) != len(tensor.dims) or any(want not in {-1, got} for want, got in zip(tensor.dims, dims, strict=True)):
        raise BadRequestError(f"{value.name}: shape {value.shape}, the model takes [-1, {list(tensor.dims)}]")
    if not 1 <= batch <= max(max_batch_size, 1):
        raise BadRequestError(f"{value.name}: batch size {batch}, the model takes 1 to {max_batch_size}")
    if (count := _elements(value)) != math.prod(value.shape):
        raise BadRequestError(f"{value.name}: {count} elements do not fill shape {value.shape}")


def decode(
    body: bytes,
    header_length: int | None,
    inputs: tuple[Tensor, ...],
    max_batch_size: int,
    read: Callable[[dict[str, Any]], bytes] | None = None,
    optional: tuple[str, ...] = (),
) -> Request:
    """Parse and check an inference request; `read` finds inputs in shared memory. Raises BadRequestError."""
    try:
        header = json.loads(body[:header_length])
        offset = len(body) if header_length is None else header_length
        values = []
        for item in header["inputs"]:
            parameters = item.get("parameters", {})
            size = parameters.get("binary_data_size")
            if read and "shared_memory_region" in parameters:
                raw = read(parameters)
            else:
                raw = _pack(item["datatype"], item["data"]) if size is None else body[offset : offset + size]
            offset += size or 0
            values.append(Value(item["name"], item["datatype"], item["shape"], raw))
        default_binary = bool(header.get("parameters", {}).get("binary_data_output", False))
        outputs = {
            item["name"]: bool(item.get("parameters", {}).get("binary_data", default_binary))
            for item in header.get("outputs", [])
        }
        wanted = {item["name"]: item.get("parameters", {}) for item in header.get("outputs", [])}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRequestError(f"malformed inference request: {error!r}") from error
    if offset != len(body):
        raise BadRequestError(f"the binary tensors end at byte {offset}, the body has {len(body)}")
    by_name = {value.name: value for value in values}
    inputs = tuple(tensor for tensor in inputs if tensor.name in by_name or tensor.name not in optional)
    if len(values) != len(inputs) or by_name.keys() != {tensor.name for tensor in inputs}:
        raise BadRequestError(f"inputs {sorted(by_name)}, the model takes {sorted(tensor.name for tensor in inputs)}")
    ordered = [by_name[tensor.name] for tensor in inputs]
    for value, tensor in zip(ordered, inputs, strict=True):
        _check(value, tensor, max_batch_size)
    batches = {value.shape[0] if max_batch_size else 1 for value in ordered}
    if len(batches) > 1:
        raise BadRequestError(f"inputs differ in batch size: {sorted(batches)}")
    places = {name: place for name, place in wanted.items() if "shared_memory_region" in place}
    batch = batches.pop()
    lead = (batch,) if max_batch_size else ()
    return Request(str(header.get("id", "")), batch, ordered, outputs or {"": default_binary}, places, lead)


def encode(model: str, request: Request, values: list[Value], version: str = "1") -> tuple[bytes, int | None]:
    """Lay out the response body like Triton; also the JSON header's length where binary tensors follow it."""
    outputs, binary = [], []
    wanted = request.outputs
    for value in values:
        if "" not in wanted and value.name not in wanted:
            continue
        item: dict[str, Any] = {"name": value.name, "datatype": value.datatype, "shape": value.shape}
        if value.name in request.places:
            pass  # only described, as Triton does
        elif wanted.get(value.name, wanted.get("", False)):
            item["parameters"] = {"binary_data_size": len(value.raw)}
            binary.append(value.raw)
        elif value.datatype == "BYTES":
            item["data"] = [text.decode("utf-8", "replace") for text in unpack_bytes(value.raw)]
        else:
            item["data"] = np.frombuffer(value.raw, dtype=NUMPY[value.datatype]).tolist()
        outputs.append(item)
    reply: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": outputs}
    if request.request_id:
        reply["id"] = request.request_id
    header = json.dumps(reply, separators=(",", ":")).encode()
    return b"".join([header, *binary]), len(header) if binary else None
