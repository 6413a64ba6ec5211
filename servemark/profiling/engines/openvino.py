"""OpenVINO: the profiling info of an infer request, compiled with `PERF_COUNT`: how long each operator took.

It is a mean over all inferences of the compiled model, cut to whole microseconds. So warm-ups are subtracted.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from servemark.profiling.engines import Loaded, loaded, modules_of
from servemark.profiling.operators import Shaped, Work, bytes_of, category_of, flops_of
from servemark.profiling.timeline import Event, Inference
from servemark.repository.entry import Entry
from servemark.workload import Arrays
from servers.engines.openvino import OpenVino

if TYPE_CHECKING:
    import openvino

PROFILERS = {"cpu": "OpenVINO's profiling info (PERF_COUNT), the mean over the rounds in whole microseconds"}
NO_STEPS = "OpenVINO reports a loop as one operator"

_PRODUCT = "/WithoutBiases"
"""The front end splits a convolution, or a product, from its biases, which keep the name."""


@dataclass(frozen=True)
class _Node:
    """A node of the file: its work, and what it reads and writes, by the tensor's node and size."""

    flops: int | None
    reads: Mapping[str, int]
    written: int


class Profiler(Loaded):
    """A request of a plain model, and one of a model that counts."""

    def __init__(self, entry: Entry, device: str, inputs: Arrays) -> None:
        super().__init__(loaded(entry, device))
        counting = loaded(entry, device, {"PERF_COUNT": "YES"})
        assert isinstance(counting, OpenVino)
        self._counting = counting
        self._modules = modules_of(entry)
        self._nodes = _nodes(str(entry.version / "model.xml"), inputs)
        self._made_of = _originals(counting.compiled)
        self._seconds, self._forgotten, self._before = list[float](), 0, dict[str, float]()

    def profiled(self, inputs: Arrays) -> float:
        begun = time.perf_counter()
        self._counting.run(inputs)
        self._seconds.append(time.perf_counter() - begun)
        return self._seconds[-1]

    def forget(self) -> None:
        self._forgotten, self._before = len(self._seconds), self._totals()

    def inferences(self) -> list[Inference]:
        rounds = len(self._seconds) - self._forgotten
        kinds = {each.node_name: each.node_type for each in self._counting.request.get_profiling_info()}
        events, at_us = [], 0.0
        for name, total_us in self._totals().items():
            us = max(total_us - self._before.get(name, 0.0), 0.0) / rounds
            if us:
                events.append(self._event(name, kinds[name], at_us, us))
                at_us += us
        return [Inference(sum(self._seconds[self._forgotten :]) / rounds, events, placed=False)]

    def _totals(self) -> dict[str, float]:
        """The time of each operator in all inferences (us)."""
        ran = self._counting.request.get_profiling_info()
        return {each.node_name: each.real_time.total_seconds() * 1e6 * len(self._seconds) for each in ran}

    def _event(self, name: str, kind: str, at_us: float, us: float) -> Event:
        named = self._made_of.get(name) or [name]
        parts = (part for each in named for part in (f"{each}{_PRODUCT}", each) if part in self._nodes)
        made_of = {part: self._nodes[part] for part in parts}
        flops, moved = _work(made_of)
        if not made_of and category_of(kind) not in {"convolution", "gemm"}:
            flops = 0  # the engine has put it between others
        modules = (self._modules[each.partition("/")[0]] for each in made_of if each.partition("/")[0] in self._modules)
        return Event(name, kind, at_us, us, next(modules, ""), flops=flops, bytes=moved)


def _originals(compiled: "openvino.CompiledModel") -> dict[str, list[str]]:
    """Nodes of the compiled graph -> the nodes of the file that each was made of."""
    found = {}
    for node in compiled.get_runtime_model().get_ops():
        info = node.get_rt_info()
        names = info["originalLayersNames"].astype(str) if "originalLayersNames" in info else ""
        found[node.get_friendly_name()] = [each for each in names.split(",") if each]
    return found


def _work(nodes: Mapping[str, _Node]) -> Work:
    """The operations of fused nodes, and the bytes that they read from outside and write at their end."""
    if not nodes:
        return None, None
    reads = {name: size for node in nodes.values() for name, size in node.reads.items() if name not in nodes}
    flops = [node.flops for node in nodes.values() if node.flops is not None]
    written = [*nodes.values()][-1].written
    return sum(flops) if len(flops) == len(nodes) else None, sum(reads.values()) + written


def _nodes(file: str, inputs: Arrays) -> dict[str, _Node]:
    """The nodes of the file with the shapes that these inputs give them."""
    import openvino

    model = openvino.Core().read_model(file)
    model.reshape({name: list(array.shape) for name, array in inputs.items()})
    return {node.get_friendly_name(): _node(node) for node in model.get_ordered_ops()}


def _node(node: Any) -> _Node:
    taken, given = [_shaped(each) for each in node.inputs()], [_shaped(each) for each in node.outputs()]
    known_in, known_out = [each for each in taken if each], [each for each in given if each]
    names = [each.get_source_output().get_node().get_friendly_name() for each in node.inputs()]
    kind = node.get_type_name()
    flops: int | None = None
    if kind not in {"Loop", "TensorIterator", "If"} and len(known_in) == len(taken) and len(known_out) == len(given):
        flops = flops_of(kind, known_in, known_out)
    written = sum(each.bytes for each in known_out)
    reads = {name: each.bytes for name, each in zip(names, taken, strict=True) if each}
    if bytes_of(kind, known_in, known_out) < written + sum(reads.values()):  # of a table only rows are read
        reads = dict(list(reads.items())[1:]) | {f"{names[0]} in part": written} if reads else reads
    return _Node(flops, reads, written)


def _shaped(port: Any) -> Shaped | None:
    if port.get_partial_shape().is_dynamic:
        return None
    return Shaped(tuple(port.get_shape()), port.get_element_type().size)
