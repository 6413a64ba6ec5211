"""ONNX Runtime: the profile of a session, which times each node of the graph as it was optimised.

On a GPU these are times of launches, because ONNX Runtime's packages are built without its profiler of kernels. There
torch.profiler, which sees the kernels of every library, tells what each node launched.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernels.tracing.onnx_calls import ENDING, Record, runs_of
from servemark.profiling.engines import Loaded, loaded, modules_of
from servemark.profiling.operators import Shaped, work_of
from servemark.profiling.timeline import Event, Inference, Span, Trace, on_device, traced, with_steps
from servemark.repository.entry import Entry
from servemark.workload import Arrays
from servers.engines.onnxruntime import KEEP_WEIGHTS, PROFILE, STOP_SPINNING, OnnxRuntime

PROFILERS = {
    "cpu": "ONNX Runtime's profile of a session (enable_profiling)",
    "cuda": "ONNX Runtime's profile of a session without CUDA graphs, with torch.profiler's kernels of each node",
}
NO_STEPS = None
ALONE = {STOP_SPINNING: "1"}
_BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "double": 8,
    "int64": 8,
    "uint64": 8,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


class Profiler(Loaded):
    """A plain session and one with its profile, and what each node computes and moves."""

    def __init__(self, entry: Entry, device: str, inputs: Arrays) -> None:
        # Two sessions run in turns. The threads of one would take the cores while the other computes: ResNet-50 took
        # 76 ms instead of 39 ms on 2 cores.
        super().__init__(loaded(entry, device, ALONE))
        assert isinstance(self.engine, OnnxRuntime)
        # A graph that is replayed runs no nodes.
        options = ALONE | ({"cuda_graph": "false"} if self.engine.keeps_graphs else {})
        self._modules = modules_of(entry)
        # Its profile has the shapes of all weights.
        with _Session(entry, device, options | {KEEP_WEIGHTS: "1"}) as session:
            session.run(inputs)
            [records] = session.runs()
        self._work = [
            work_of(said["op_name"], _shapes(said["input_type_shape"]), _shapes(said["output_type_shape"]))
            for said in (each["args"] for each in records)
        ]
        self._session, self._forgotten = _Session(entry, device, options), 0
        self._seconds, self._traces = list[float](), list[Trace]()

    def profiled(self, inputs: Arrays) -> float:
        if self.engine.device == "cpu":
            self._seconds.append(self._session.run(inputs))
        else:
            seconds, trace = traced(lambda: self._session.run(inputs), self.engine.device)
            self._seconds.append(seconds)
            self._traces.append(trace)
        return self._seconds[-1]

    def forget(self) -> None:
        self._forgotten = len(self._seconds)

    def inferences(self) -> list[Inference]:
        with self._session as session:
            zero_ns, runs = session.zero_ns, session.runs()
        found = []
        for number in range(self._forgotten, len(runs)):
            records, seconds = runs[number], self._seconds[number]
            if self._traces:
                spans, others = on_device_of(records, zero_ns, self._traces[number])
                events = [*with_steps([*self._events(records, spans)]), *others]
            else:
                begun_us = records[0]["ts"] if records else 0
                events = with_steps([*self._events(records, spans_of(records, -begun_us))])
            found.append(Inference(seconds, events, placed=not self._traces))
        return found

    def _events(self, records: Sequence[Record], spans: Sequence[Span]) -> Iterator[Event]:
        works = self._work if len(self._work) == len(records) else [(None, None)] * len(records)
        for record, (name, at_us, us), (flops, moved) in zip(records, spans, works, strict=True):
            module = self._modules.get(name.removeprefix("fused ").removesuffix("_nchwc"), "")
            yield Event(name, record["args"]["op_name"], at_us, us, module, flops=flops, bytes=moved)


def spans_of(records: Sequence[Record], later_us: float) -> list[Span]:
    """Name nodes and place them, so much later than the profile has them."""
    return [Span(each["name"].removesuffix(ENDING), each["ts"] + later_us, float(each["dur"])) for each in records]


def on_device_of(records: Sequence[Record], zero_ns: int, trace: Trace) -> tuple[list[Span], list[Event]]:
    """Give the nodes of a run the times of their kernels; what else ran on the device is the second list.

    Both clocks are Unix time: the profile counts from `zero_ns`.
    """
    nodes = spans_of(records, (zero_ns - trace.zero_ns) / 1e3)
    spans, nobodys = on_device([*nodes, *trace.operators], trace.kernels)
    copies = [Event(name.partition("::")[2], name, at_us, us, flops=0) for name, at_us, us in spans[len(nodes) :]]
    return spans[: len(nodes)], [*copies, *nobodys]


class _Session(contextlib.ExitStack):
    """A session with its profile, which is a file in a folder that goes with it."""

    def __init__(self, entry: Entry, device: str, options: Mapping[str, str]) -> None:
        super().__init__()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        engine = loaded(entry, device, {**options, PROFILE: str(Path(folder, "profile"))})
        assert isinstance(engine, OnnxRuntime)
        self._engine = engine

    def run(self, inputs: Arrays) -> float:
        """Run once; its seconds."""
        begun = time.perf_counter()
        self._engine.run(inputs)
        return time.perf_counter() - begun

    @property
    def zero_ns(self) -> int:
        """Unix time at which its profile began."""
        return int(self._engine.session.get_profiling_start_time_ns())

    def runs(self) -> list[list[Record]]:
        """End the profile; its runs."""
        return runs_of(json.loads(Path(self._engine.session.end_profiling()).read_text()))


def _shapes(described: Sequence[Mapping[str, list[int]]]) -> list[Shaped]:
    return [Shaped(tuple(shape), _BYTES.get(kind, 4)) for each in described for kind, shape in each.items()]
