"""Documents that a server has of a model: its metadata with Triton's configuration, and Triton's counters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servemark.documents.server import Tensors
from servemark.errors import MAX_QUOTED, ServerError
from servemark.figures.server import NONE_EXECUTED, Statistics, of_model
from servemark.figures.value import COUNT, Value
from servemark.results.schema.details import ComposingModel
from servemark.workload import Tensor
from servemark.workload.tensor import NUMPY_DTYPES

UNKNOWN_MAX_BATCH = 1 << 20
"""Samples in a request where a server has batches and says no maximum."""
MAX_NAME, MAX_TENSORS = 500, 1000
MAX_AXES = 32
"""More dimensions than that no array of ours has."""
_TYPE = "TYPE_"
COUNTED_SHARE = 0.98
"""A server that counts less than this share of the answers it gave in the interval alone has forgotten some."""
COMPOSING = "composing"
"""Key for the statistics and figures of the models that a pipeline calls."""
_MAX_COUNTER = 1 << 64


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
    listed = config.get("input")
    listed = listed if isinstance(listed, list) else []
    optional = {str(each.get("name")) for each in listed if isinstance(each, dict) and each.get("optional") is True}
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


def _quoted(value: object) -> str:
    return repr(value)[:MAX_QUOTED]


def is_whole(statistics: Any) -> bool:
    """Return True if the statistics have every counter that is read, because half of them would mislead."""
    try:
        steps = ("success", "queue", "compute_input", "compute_infer", "compute_output")
        durations = [statistics["inference_stats"][key] for key in steps]
        counters = [statistics["inference_count"], statistics["execution_count"]]
        counters += [duration[key] for duration in durations for key in ("count", "ns")]
        for batch in statistics.get("batch_stats", []):
            counters += [batch["batch_size"], batch["compute_infer"]["count"]]
    except (AttributeError, KeyError, TypeError):
        return False
    return all(type(counter) is int and 0 <= counter < _MAX_COUNTER for counter in counters)


def composing_models(before: Statistics, after: Statistics) -> dict[str, ComposingModel]:
    """Return the figures of the models that a pipeline calls, between two readings of the statistics; empty: none."""
    parts, ended, asked = before.get(COMPOSING, {}), after.get(COMPOSING, {}), _requests(before, after)
    found: dict[str, ComposingModel] = {}
    for name, first in parts.items():
        if (last := ended.get(name)) is not None:
            calls = Value(_requests(first, last) / asked) if asked > 0 else Value.unknown(NONE_EXECUTED)
            figures = {**of_model(first, last), "server.calls": calls.to_dict(COUNT)}
            found[name] = {"figures": figures, "batch_sizes": batch_sizes(first, last)}
    return found


def batch_sizes(before: Statistics, after: Statistics) -> dict[str, int]:
    """Return how often each size of batch was executed between two readings."""
    counts = {b["batch_size"]: b["compute_infer"]["count"] for b in after.get("batch_stats", [])}
    for batch in before.get("batch_stats", []):
        counts[batch["batch_size"]] = counts.get(batch["batch_size"], 0) - batch["compute_infer"]["count"]
    return {str(size): count for size, count in sorted(counts.items()) if count > 0}


def _requests(before: Statistics, after: Statistics) -> int:
    """Requests that succeeded."""
    first, last = (statistics["inference_stats"]["success"]["count"] for statistics in (before, after))
    return int(last - first)


def restarted(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, answered: int) -> bool:
    """Return True if the model was loaded again: its counter fell, or is below its answers in the interval.

    Not the counter's growth: a busy server may answer the first reading so late that much of the interval is over.
    """
    if before is None or after is None:
        return False
    counted = int(after["inference_stats"]["success"]["count"])
    return _requests(before, after) < 0 or counted < COUNTED_SHARE * answered
