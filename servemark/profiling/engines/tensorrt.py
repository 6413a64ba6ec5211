"""TensorRT: its layer profiler. Layers are fused kernels, whose names hold the nodes that they were made of."""

import re
import time
from typing import TYPE_CHECKING

from servemark.frameworks.tensorrt import Module
from servemark.profiling.engines import Loaded, loaded, modules_of
from servemark.profiling.operators import known
from servemark.profiling.timeline import Event, Inference
from servemark.repository.entry import Entry
from servemark.workload import Arrays
from servers.engines.tensorrt import TensorRT

if TYPE_CHECKING:
    import tensorrt as trt

PROFILERS = {"cuda": "TensorRT's layer profiler (IProfiler)"}
NO_STEPS = "TensorRT reports no order of a loop's rounds"


class Profiler(Loaded):
    """A plan, and a second one whose context reports each layer."""

    def __init__(self, entry: Entry, device: str, inputs: Arrays) -> None:  # noqa: ARG002 - a plan tells no shapes
        super().__init__(loaded(entry, device))
        reporting = loaded(entry, device)
        assert isinstance(reporting, TensorRT)
        self._reporting, self._layers = reporting, list[tuple[str, float]]()
        self._modules = modules_of(entry)
        reporting.plan.report(_reporter(reporting.plan.module, self._layers))

    def profiled(self, inputs: Arrays) -> float:
        self._layers.clear()
        begun = time.perf_counter()
        self._reporting.run(inputs)
        seconds = time.perf_counter() - begun
        events, at_us = [], 0.0
        for name, ms in self._layers:
            node = next((each for each in re.findall(r"[\w.]+", name) if each in self._modules), "")
            events.append(Event(name, operator_of(name), at_us, ms * 1e3, self._modules.get(node, "")))
            at_us += ms * 1e3
        self._found.append(Inference(seconds, events, placed=False))
        return seconds


def operator_of(layer: str) -> str:
    """Read the operator from a layer's name, like `node_Conv_754 + node_relu`; the name where it holds none."""
    words = re.findall(r"[A-Za-z][A-Za-z0-9]*", layer.replace("_", " "))
    return next((word for word in words if known(word)), layer)


def _reporter(module: Module, found: list[tuple[str, float]]) -> "trt.IProfiler":
    class Reporter(module.IProfiler):  # type: ignore[misc,name-defined]  # a class of the edition's module
        def __init__(self) -> None:
            module.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            found.append((layer_name, ms))

    made: trt.IProfiler = Reporter()
    return made
