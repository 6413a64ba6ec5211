"""Ranges of random requests that reach both sides of a graph's thresholds.

A Clip at 6 is not seen by requests in [0, 1): an engine that leaves it out would answer them rightly. Each operator
whose formula changes at a value is watched, and of several ranges the smallest is taken that crosses the most values.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from exporters.importing.model_file import Draw, Ranges
from exporters.importing.onnx_graph import CLASSICAL, STANDARD, flowing
from servemark.frameworks.onnxruntime import Session, import_onnxruntime
from servemark.workload import Arrays, Sample

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

Ask = Callable[[Sequence[Sample]], Arrays]
"""Makes a request of samples."""
SCALES = tuple(4.0**power for power in range(11))
"""Half widths of the ranges that are tried, up to a million."""
SAMPLES = 8
"""Samples in which both sides have to occur."""
MAX_SITES = 256
"""Places that are watched at most, first ones first: a graph may repeat one operator thousands of times."""
_BOOLEAN = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
_CONDITIONS = {*_BOOLEAN, "Where", "If"}
_AT_ZERO = {"Abs", "Celu", "Elu", "LeakyRelu", "PRelu", "Relu", "Selu", "Sign"}
_BRANCHES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass(frozen=True)
class Site:
    """A tensor that decides between two formulas where it crosses one of these values; a condition has none."""

    tensor: str
    values: tuple[float, ...] = ()
    column: int | None = None
    """The one feature that is compared; None: all elements."""

    def crossed(self, array: npt.NDArray[Any]) -> int:
        """Count the values of which both sides occur."""
        if self.column is not None:
            array = array.reshape(len(array), -1)[:, self.column]
        if not array.size:
            return 0
        if not self.values:
            return int(bool(array.any()) and not array.all())
        least, most = np.nanmin(array), np.nanmax(array)
        return sum(bool(least < value < most) for value in self.values)

    @property
    def most(self) -> int:
        """The number of values that can be crossed."""
        return len(self.values) or 1


def sites(model: "ModelProto") -> list[Site]:
    """Find the places of the main graph that depend on the values of its inputs."""
    graph, found = model.graph, []
    data, constants = flowing(graph), _scalars(graph)
    for node in graph.node:
        attributes = {each.name: each for each in node.attribute}
        if node.domain == CLASSICAL:
            found += _classical(node, attributes)
        elif node.domain in STANDARD:
            found += _standard(node, attributes, constants)
    return [site for site in dict.fromkeys(found) if site.tensor in data][:MAX_SITES]


def ranges(file: Path, free: Mapping[str, str], draw: Draw, ask: Ask, *, together: int, count: int = SAMPLES) -> Ranges:
    """Choose ranges for the inputs that nothing bounds: {} where those of random requests cross as many values as any.

    `free` has their names and datatypes; `count` samples are asked, so many `together` in a request. Ranges are passed
    over that the model cannot run on, or answers with NaN or infinity if it does not always.
    """
    import onnx

    model = onnx.load(file, load_external_data=False)
    watched = sites(model)
    trials = _trials(free)
    if not watched or not trials:
        return {}
    outputs = [value.name for value in model.graph.output]
    run = _watching(file, model, [*outputs, *(site.tensor for site in watched)])

    def crossed(tried: Ranges) -> tuple[bool, int]:
        samples = list(itertools.islice(draw(tried), count))
        try:
            parts = [run(ask(samples[start : start + together])) for start in range(0, count, together)]
            seen = {name: np.concatenate([np.atleast_1d(part[name]) for part in parts]) for name in parts[0]}
        except Exception:  # ids beyond a table, say, or sizes that differ; the runtimes' exceptions share no base
            return False, -1
        finite = all(seen[name].dtype.kind != "f" or np.isfinite(seen[name]).all() for name in outputs)
        return finite, sum(site.crossed(seen[site.tensor]) for site in watched)

    (finite, best), chosen = crossed({}), dict[str, tuple[float, float]]()
    most = sum(site.most for site in watched)
    for tried in trials:
        if best == most:
            break
        still_finite, found = crossed(tried)
        if found > best and still_finite >= finite:
            best, chosen = found, tried
    return chosen


def _trials(free: Mapping[str, str]) -> list[dict[str, tuple[float, float]]]:
    """List the ranges to try, smaller ones first."""
    floats = [name for name, datatype in free.items() if datatype.startswith("FP")]
    wholes = [name for name, datatype in free.items() if datatype in {"INT32", "INT64"}]
    kinds = [each for each in ((floats, wholes), (floats, []), ([], wholes)) if any(each)]
    trials: list[dict[str, tuple[float, float]]] = []
    for scale, (signed, counted) in itertools.product(SCALES, kinds):
        trial = {**dict.fromkeys(signed, (-scale, scale)), **dict.fromkeys(counted, (0.0, scale))}
        if trial not in trials:
            trials.append(trial)
    return trials


def _watching(file: Path, model: "ModelProto", tensors: Sequence[str]) -> Callable[[Arrays], Arrays]:
    """Start a session that answers these tensors too."""
    import onnx

    inputs = {value.name for value in model.graph.input}
    there = {value.name for value in model.graph.output}
    names = [name for name in dict.fromkeys(tensors) if name not in inputs]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    draft = file.with_name("watched.onnx")  # beside its external data
    try:
        draft.write_bytes(model.SerializeToString())
        session = import_onnxruntime().InferenceSession(str(draft), providers=["CPUExecutionProvider"])
    finally:
        draft.unlink(missing_ok=True)
    inner = Session(session, names)
    return lambda arrays: {**arrays, **inner.run(arrays)}


def _standard(node: "NodeProto", attributes: Mapping[str, Any], constants: Mapping[str, float]) -> list[Site]:
    """Find what a node of ONNX's own operators watches, and at which values."""
    kind, inputs = node.op_type, list(node.input)
    if kind in _CONDITIONS:
        return [Site(node.output[0] if kind in _BOOLEAN else inputs[0])]
    if kind in {"Max", "Min"}:
        bounds = tuple(constants[name] for name in inputs if name in constants)
        return [Site(name, bounds) for name in inputs if bounds and name not in constants]
    if kind == "Clip":
        bounds = tuple(float(attributes[name].f) for name in ("min", "max") if name in attributes)
        bounds += tuple(constants[name] for name in inputs[1:3] if name in constants)
    else:
        bounds = _bounds(kind, {name: float(each.f) for name, each in attributes.items()})
    bounds = tuple(bound for bound in bounds if abs(bound) < SCALES[-1])
    return [Site(inputs[0], bounds)] if bounds else []


def _bounds(kind: str, attributes: Mapping[str, float]) -> tuple[float, ...]:
    """Return where an operator of one input changes its formula."""
    bend = attributes.get("lambd", 0.5)
    slope, start = attributes.get("alpha", 0.2), attributes.get("beta", 0.5)
    found: dict[str, tuple[float, ...]] = {
        **dict.fromkeys(_AT_ZERO, (0.0,)),
        "HardSigmoid": (-start / slope, (1 - start) / slope) if slope else (),
        "HardSwish": (-3.0, 3.0),
        "Shrink": (-bend, bend),
        "ThresholdedRelu": (attributes.get("alpha", 1.0),),
    }
    return found.get(kind, ())


def _classical(node: "NodeProto", attributes: Mapping[str, Any]) -> list[Site]:
    if node.op_type == "Binarizer":
        return [Site(node.input[0], (float(attributes["threshold"].f) if "threshold" in attributes else 0.0,))]
    if not node.op_type.startswith("TreeEnsemble") or "nodes_modes" not in attributes:
        return []
    nodes = zip(
        attributes["nodes_modes"].strings, attributes["nodes_featureids"].ints, _floats(attributes), strict=False
    )
    values: dict[int, set[float]] = {}
    for mode, feature, value in nodes:
        if mode.decode() in _BRANCHES:
            values.setdefault(int(feature), set()).add(float(value))
    return [Site(node.input[0], tuple(sorted(each)), feature) for feature, each in sorted(values.items())]


def _floats(attributes: Mapping[str, Any]) -> Sequence[float]:
    from onnx import numpy_helper

    if "nodes_values" in attributes:
        return list(attributes["nodes_values"].floats)
    tensor = attributes.get("nodes_values_as_tensor")
    return [] if tensor is None else [float(each) for each in numpy_helper.to_array(tensor.t)]


def _scalars(graph: "GraphProto") -> dict[str, float]:
    """Return the constants of one number, as far as they stand in the file."""
    from onnx import TensorProto, numpy_helper

    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    found = {}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            for each in node.attribute:
                if each.type == each.TENSOR:
                    tensors.append((node.output[0], each.t))
                elif each.type in {each.FLOAT, each.INT}:
                    found[node.output[0]] = float(each.f if each.type == each.FLOAT else each.i)
    for name, tensor in tensors:
        inside = tensor.data_location != TensorProto.EXTERNAL and tensor.data_type != TensorProto.STRING
        if inside and math.prod(tensor.dims) == 1:
            found[name] = float(numpy_helper.to_array(tensor).astype(np.float64).reshape(()))
    return found
