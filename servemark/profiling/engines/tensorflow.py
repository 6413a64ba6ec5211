"""TensorFlow: its profiler's trace of the host, which says when each node of each thread began and ended.

The trace has no shapes. They are inferred in a copy of the graph whose inputs have those of the request.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from servemark.profiling.engines import Loaded, loaded, modules_of
from servemark.profiling.operators import Shaped, Work, work_of
from servemark.profiling.timeline import Event, Inference, with_steps
from servemark.repository.entry import Entry
from servemark.workload import Arrays
from servers.engines.tensorflow import TensorFlow

PROFILERS = {"cpu": "TensorFlow's profiler (tf.profiler, host tracer)"}
NO_STEPS = None
_WITH_OPERATORS = 2
"""Level of the host tracer at which each node is an event."""
_FUSED_DEPTH = 4
"""Nodes between the last one of a fusion, whose name it has, and its convolution or product."""


class Profiler(Loaded):
    """A signature, with modules and work of its nodes."""

    def __init__(self, entry: Entry, device: str, inputs: Arrays) -> None:
        engine = loaded(entry, device)
        assert isinstance(engine, TensorFlow)
        super().__init__(engine)
        self._modules = modules_of(entry)
        self._nodes = _nodes(engine.function, engine.names.fed(inputs))

    def profiled(self, inputs: Arrays) -> float:
        import tensorflow as tf
        from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

        profiler = tf.profiler.experimental
        levels = {"host_tracer_level": _WITH_OPERATORS, "python_tracer_level": 0, "device_tracer_level": 0}
        with tempfile.TemporaryDirectory() as folder:
            profiler.start(folder, options=profiler.ProfilerOptions(**levels))
            try:
                begun = time.perf_counter()
                self.engine.run(inputs)
                seconds = time.perf_counter() - begun
            finally:
                profiler.stop()
            [file] = Path(folder).rglob("*.xplane.pb")
            space = XSpace()
            space.ParseFromString(file.read_bytes())
        events = sorted(self._events(space), key=lambda event: event.start_us)
        begun_us = events[0].start_us if events else 0.0
        placed = [replace(event, start_us=event.start_us - begun_us) for event in events]
        self._found.append(Inference(seconds, with_steps(placed)))
        return seconds

    def _work(self, name: str, operator: str) -> Work:
        """The work of a node; that of a fusion is all that went into it, which bears its last node's name."""
        if name not in self._nodes:
            return None, None
        node = self._nodes[name]
        flops, moved = _work(node)
        near = [node] if "Fused" in operator else []
        for _ in range(_FUSED_DEPTH):  # the nearest convolution or product before it
            near = [each.op for one in near for each in one.inputs]
            works = [work for each in near if (work := _work(each))[0]]
            if works and not flops:
                flops, moved = works[0]
        return flops, moved

    def _events(self, space: Any) -> Iterator[Event]:
        """The nodes: events named `<node>:<operator>`."""
        for plane in space.planes:
            for line in plane.lines:
                for event in line.events:
                    said = plane.event_metadata[event.metadata_id]
                    name, _, operator = said.name.partition(":")
                    if operator and operator == said.display_name:
                        flops, moved = self._work(name, operator)
                        module = next((self._modules[part] for part in name.split("/") if part in self._modules), "")
                        at_us, us = line.timestamp_ns / 1e3 + event.offset_ps / 1e6, event.duration_ps / 1e6
                        yield Event(name, operator, at_us, us, module, line.id, flops=flops, bytes=moved)


def _nodes(function: Any, inputs: Arrays) -> dict[str, Any]:
    """The nodes, functions inlined, with the shapes that these inputs give them."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
    names = [each.name.partition(":")[0] for each in function.inputs if each.dtype.name != "resource"]
    given = {name: each.name.partition(":")[0] for name, each in zip(names, frozen.inputs, strict=True)}
    graph = tf.Graph()
    with graph.as_default():
        fed = {given[name]: tf.compat.v1.placeholder(array.dtype, array.shape) for name, array in inputs.items()}
        tf.graph_util.import_graph_def(frozen.graph.as_graph_def(), input_map=fed, name="")
    return {each.name: each for each in graph.get_operations()}


def _work(node: Any) -> Work:
    """Operations and bytes of a node as it stands in the file."""
    inputs, outputs = [_shaped(each) for each in node.inputs], [_shaped(each) for each in node.outputs]
    return work_of(node.type, inputs, outputs, window_first=True)


def _shaped(tensor: Any) -> Shaped | None:
    if not tensor.shape.is_fully_defined():
        return None
    return Shaped(tuple(tensor.shape.as_list()), tensor.dtype.size or 8)
