"""Description of a served model's inputs and outputs: its metadata and, if there is one, Triton's configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servemark.documents.server import Tensors
from servemark.errors import MAX_QUOTED, ServerError
from servemark.workload import Tensor
from servemark.workload.tensor import NUMPY_DTYPES

UNKNOWN_MAX_BATCH = 1 << 20
"""Samples in a request where a server has batches and says no maximum."""
MAX_NAME, MAX_TENSORS = 500, 1000
MAX_AXES = 32
"""More dimensions than that no array of ours has."""
_TYPE = "TYPE_"


@dataclass(frozen=True)
class ServedModel:
    """A model's interface. `max_batch` 0: its tensors have no batch dimension; else their shapes leave it out."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    max_batch: int


def read_served_model(where: str, metadata: Mapping[str, Any], config: Mapping[str, Any]) -> ServedModel:
    """Read the two documents; an empty `config` is none. Raises ServerError for what cannot be a model's interface.

    Triton's configuration says whether there are batches. Another server's model has them where the first size of every
    tensor is -1.
    """
    inputs = _tensors(f"{where}: input", metadata.get("inputs"))
    outputs = _tensors(f"{where}: output", metadata.get("outputs"))
    if not inputs:
        raise ServerError(
            f"{where}: the server names no inputs, so no request can be made",
            fix="--input NAME:FP32:-1,4 --output NAME:FP32:-1,3; or declare them where the server is configured "
            "(MLServer: model-settings.json)",
        )
    if "max_batch_size" in config:
        max_batch = _whole(f"{where}: max_batch_size", config["max_batch_size"], 0)
    else:
        batched = all(shape[:1] == (-1,) for _, _, shape in (*inputs, *outputs))
        max_batch = UNKNOWN_MAX_BATCH if batched else 0
    optional = {str(each.get("name")) for each in _dictionaries(config.get("input")) if each.get("optional") is True}
    for name, _, shape in (*inputs, *outputs):
        if max_batch and shape[:1] != (-1,):
            raise ServerError(
                f"{where}: its configuration says max_batch_size {max_batch}, "
                f"its metadata shape {_quoted(list(shape))} for {_quoted(name)}, which begins with no -1"
            )
    skipped = 1 if max_batch else 0
    return ServedModel(
        tuple(Tensor(name, kind, shape[skipped:], optional=name in optional) for name, kind, shape in inputs),
        tuple(Tensor(name, kind, shape[skipped:]) for name, kind, shape in outputs),
        max_batch,
    )


def declared_model(where: str, declared: Mapping[str, Tensors]) -> ServedModel:
    """Read the `inputs` and `outputs` of a server without metadata. Raises ServerError."""
    metadata = {
        kind: [{"name": name, "datatype": datatype, "shape": list(shape)} for name, (datatype, shape) in named.items()]
        for kind, named in declared.items()
    }
    return read_served_model(where, metadata, {})


def _tensors(where: str, listed: Any) -> list[tuple[str, str, tuple[int, ...]]]:
    """Names, datatypes and shapes as they stand. Raises ServerError."""
    found: list[tuple[str, str, tuple[int, ...]]] = []
    if listed is not None and not isinstance(listed, list):
        raise ServerError(f"{where}s are {_quoted(listed)}, no list")
    for each in listed or []:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str) or not each["name"]:
            raise ServerError(f"{where} {_quoted(each)} has no name")
        name, datatype, shape = each["name"], each.get("datatype"), each.get("shape")
        if len(name) > MAX_NAME or len(found) == MAX_TENSORS:
            raise ServerError(f"{where}s: more than {MAX_TENSORS}, or a name of more than {MAX_NAME} characters")
        if name.splitlines() != [name]:
            raise ServerError(f"{where} {_quoted(name)} has an end of a line in its name")
        kind = datatype.removeprefix(_TYPE) if isinstance(datatype, str) else ""
        kind = "BYTES" if kind == "STRING" else kind
        if kind not in NUMPY_DTYPES:
            raise ServerError(
                f"{where} {_quoted(name)} has the datatype {_quoted(datatype)}, which KServe v2 has not: "
                f"{', '.join(NUMPY_DTYPES)}"
            )
        if not isinstance(shape, list) or len(shape) > MAX_AXES:
            raise ServerError(f"{where} {_quoted(name)} has the shape {_quoted(shape)}, no list of up to {MAX_AXES}")
        sizes = tuple(_whole(f"{where} {_quoted(name)}: a size", size, -1) for size in shape)
        if any(name == other for other, _, _ in found):
            raise ServerError(f"{where} {_quoted(name)} is named twice")
        found.append((name, kind, sizes))
    return found


def _whole(what: str, value: Any, least: int) -> int:
    """A whole number, which some servers write as text. Raises ServerError."""
    text = str(value)
    if isinstance(value, bool) or not text.removeprefix("-").isdecimal() or len(text) > 18 or int(text) < least:
        raise ServerError(f"{what} is {_quoted(value)}, no whole number of at least {least}")
    return int(text)


def _dictionaries(listed: Any) -> list[dict[str, Any]]:
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _quoted(value: object) -> str:
    return repr(value)[:MAX_QUOTED]
