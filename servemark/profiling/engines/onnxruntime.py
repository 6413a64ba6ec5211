"""ONNX Runtime: the profile of a session, which times each node of the graph as it was optimised."""

import bisect
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from servemark.profiling.counts import Shaped, bytes_of, flops_of
from servemark.profiling.engines import loaded, modules_of, require_cpu
from servemark.profiling.timeline import Event, Inference, with_steps
from servemark.repository.entry import Entry
from servemark.workload import Arrays
from servers.engines.onnxruntime import KEEP_WEIGHTS, PROFILE, STOP_SPINNING, OnnxRuntime

PROFILER = "ONNX Runtime's profile of a session (enable_profiling)"
ON_GPU = False
NO_STEPS = None
ALONE = {STOP_SPINNING: "1"}
_ENDING = "_kernel_time"
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
Record = Mapping[str, Any]
Work = tuple[int | None, int | None]


class Profiler:
    """A plain session and one with its profile, and what each node computes and moves."""

    def __init__(self, entry: Entry, device: str, inputs: Arrays) -> None:
        # Two sessions run in turns. The threads of one would take the cores while the other computes: ResNet-50 took
        # 76 ms instead of 39 ms on 2 cores.
        self.engine = loaded(entry, device, ALONE)
        self._modules = modules_of(entry)
        # Its profile has the shapes of all weights.
        with _Session(entry, device, ALONE | {KEEP_WEIGHTS: "1"}) as session:
            session.run(inputs)
            [records] = session.runs()
        self._work = [_work(each["args"]) for each in records]
        self._session, self._seconds, self._forgotten = _Session(entry, device, ALONE), list[float](), 0

    def profiled(self, inputs: Arrays) -> float:
        self._seconds.append(self._session.run(inputs))
        return self._seconds[-1]

    def forget(self) -> None:
        self._forgotten = len(self._seconds)

    def inferences(self) -> list[Inference]:
        with self._session as session:
            runs = session.runs()
        found = [*zip(self._seconds, runs, strict=True)][self._forgotten :]
        return [Inference(seconds, with_steps([*self._events(records)])) for seconds, records in found]

    def _events(self, records: Sequence[Record]) -> Iterator[Event]:
        begun_us = min((record["ts"] for record in records), default=0)
        works = self._work if len(self._work) == len(records) else [(None, None)] * len(records)
        for record, (flops, moved) in zip(records, works, strict=True):
            name, us = record["name"].removesuffix(_ENDING), float(record["dur"])
            at_us, operator = float(record["ts"] - begun_us), record["args"]["op_name"]
            module = self._modules.get(name.removeprefix("fused ").removesuffix("_nchwc"), "")
            yield Event(name, operator, at_us, us, module, flops=flops, bytes=moved)


def load(entry: Entry, device: str, inputs: Arrays) -> Profiler:
    """Load a session, one with a profile, and for a moment one that leaves weights as they are."""
    require_cpu("onnxruntime", device)
    return Profiler(entry, device, inputs)


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

    def runs(self) -> list[list[Record]]:
        """End the profile; the nodes of each run in the order in which they began."""
        records = json.loads(Path(self._engine.session.end_profiling()).read_text())
        nodes = [each for each in records if each.get("cat") == "Node" and each["name"].endswith(_ENDING)]
        ends = sorted(each["ts"] + each["dur"] for each in records if each["name"] == "model_run")
        found: list[list[Record]] = [[] for _ in ends]
        for each in sorted(nodes, key=lambda each: (each["ts"], -each["dur"])):
            found[bisect.bisect_left(ends, each["ts"])].append(each)
        return found


def _work(said: Mapping[str, Any]) -> Work:
    operator, inputs, outputs = said["op_name"], _shapes(said["input_type_shape"]), _shapes(said["output_type_shape"])
    try:
        return flops_of(operator, inputs, outputs), bytes_of(operator, inputs, outputs)
    except (IndexError, StopIteration):
        return None, bytes_of(operator, inputs, outputs)


def _shapes(described: Sequence[Mapping[str, list[int]]]) -> list[Shaped]:
    return [Shaped(tuple(shape), _BYTES.get(kind, 4)) for each in described for kind, shape in each.items()]
