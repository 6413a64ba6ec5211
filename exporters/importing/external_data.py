"""The weights of an ONNX file that lie in other files: found wherever a tensor can stand, checked, copied and renamed.

Triton loads libraries that lie beside a model, so a file never keeps the name that a model gives it.
"""

import math
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from exporters.importing.model_file import held, shown, unusable
from exporters.importing.onnx_graph import parts
from exporters.pipeline.export import WEIGHTS
from servemark.errors import ArtifactError

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

FIX = "onnx.save(model, path, save_as_external_data=True) keeps the weights in a file beside it"
MAX_LOCATION = 1000
"""Characters of a location."""
MAX_SHOWN_SIZES = 4
MAX_DIMENSIONS, MAX_WEIGHT_BYTES = 64, 1 << 60
_NUMBER = re.compile(r"[0-9]{1,18}")
_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
"""Types of which several share a byte."""


class Kept(NamedTuple):
    """Place of a weight."""

    file: Path
    """With links resolved."""
    offset: int
    size: int


def external_tensors(model: "ModelProto") -> Iterator["TensorProto"]:
    """The tensors that name other files."""
    from onnx import TensorProto

    for tensor in parts(model, TensorProto):
        if tensor.external_data or tensor.data_location == TensorProto.EXTERNAL:
            yield tensor


def kept(path: Path, tensor: "TensorProto") -> Kept:
    """Find the place of a weight. Raises ArtifactError if there is none, or if it is outside the file's folder."""
    name = shown(tensor.name)
    said = {entry.key: entry.value for entry in tensor.external_data}
    if len(said) < len(tensor.external_data):
        raise unusable(path, f"its weight {name} says twice where it lies", fix=FIX)
    location = said.get("location", "")
    parts = PurePosixPath(location)
    if not location or len(location) > MAX_LOCATION or "\0" in location:
        raise unusable(path, f"its weight {name} lies in no file that can be ({shown(location)})", fix=FIX)
    if parts.is_absolute() or ".." in parts.parts:
        raise _outside(path, tensor, location)
    offset, length = (_number(path, tensor, said, key) for key in ("offset", "length"))
    needed = bytes_of(path, tensor)
    if "length" in said and length != needed:
        raise unusable(path, f"its weight {name} has {length:,} bytes, and its sizes need {needed:,}", fix=FIX)
    # realpath, because Path.resolve raises on links in a circle
    file = Path(os.path.realpath(path.parent / location))
    if not held(path, file):
        raise _outside(path, tensor, location)
    try:
        if not file.is_file():
            raise unusable(
                path,
                f"its external data {path.parent / location} is missing (weight {name})",
                fix="put it beside the file",
            )
        size = file.stat().st_size
    except OSError as error:
        raise unusable(path, f"its weight {name} lies in no file that can be: {error.strerror}", fix=FIX) from error
    if size < offset + needed:
        raise unusable(
            path,
            f"its external data {path.parent / location} has {size:,} bytes, "
            f"and weight {name} ends at {offset + needed:,}",
            fix="copy it again",
        )
    return Kept(file, offset, needed)


def gather(path: Path, model: "ModelProto", version: Path) -> None:
    """Copy what a model's weights lie in as weights_0.bin and so on, and have the model say so."""
    from onnx import TensorProto

    names: dict[Path, str] = {}
    for tensor in list(external_tensors(model)):
        if tensor.data_location != TensorProto.EXTERNAL:  # a place that nobody asks for
            del tensor.external_data[:]
            continue
        file, offset, size = kept(path, tensor)
        name = names.setdefault(file, WEIGHTS.format(len(names)))
        del tensor.external_data[:]
        for key, value in (("location", name), ("offset", str(offset)), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
    for file, name in names.items():
        shutil.copyfile(file, version / name)


def _outside(path: Path, tensor: "TensorProto", location: str) -> ArtifactError:
    return unusable(path, f"its weight {shown(tensor.name)} lies outside its folder ({shown(location)})", fix=FIX)


def _number(path: Path, tensor: "TensorProto", said: dict[str, str], key: str) -> int:
    text = said.get(key) or "0"
    if not _NUMBER.fullmatch(text):
        raise unusable(
            path, f"its weight {shown(tensor.name)} has the {key} {shown(text)}, which is not a size", fix=FIX
        )
    return int(text)


def bytes_of(path: Path, tensor: "TensorProto") -> int:
    """The bytes that the sizes of a tensor need. Raises ArtifactError."""
    from onnx import TensorProto, helper

    try:
        kind = TensorProto.DataType.Name(tensor.data_type)
        bits = _BITS.get(kind) or 8 * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except (KeyError, ValueError):
        kind, bits = "of an unknown type", 0
    sizes = list(tensor.dims[:MAX_DIMENSIONS])
    needed = -(-math.prod(sizes) * bits // 8)
    if (
        not bits
        or min(sizes, default=0) < 0
        or needed > MAX_WEIGHT_BYTES
        or len(tensor.dims) > MAX_DIMENSIONS
        or (kind == "STRING" and tensor.data_location == TensorProto.EXTERNAL)
    ):
        said = f"{kind} {sizes[:MAX_SHOWN_SIZES]} in {len(tensor.dims)} dimensions"
        raise unusable(path, f"its weight {shown(tensor.name)} is {said}, which no file holds", fix=FIX)
    return needed
