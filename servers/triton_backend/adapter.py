"""Triton's Python backend interface over an engine; the model.py of every engine's backend is `Adapter`.

Runs in the Python backend's stub, which calls `initialize`, `execute` and `finalize` (Triton's Python backend README,
"Usage") and provides the module `triton_python_backend_utils`.
"""

import copy
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import triton_python_backend_utils as triton

from servemark.errors import ArtifactError
from servemark.workload import Engine
from servers.engines import DeviceEngine, load_model, model_inputs
from servers.triton_backend import tensors

ENGINE_METRIC = "servemark_engine_info"
"""A metric that is always 1; its labels say which engine, device and provider really run a model."""
DEFAULT_IDLE_US = 1_000_000
"""Triton ends a sequence whose next request has not come by then, where the configuration does not say."""


class TensorCodec(Protocol):
    """Triton's tensors to the engine's and back: the module `tensors`, or its `DeviceTensors` on a GPU."""

    def read(self, tensor: "triton.Tensor") -> Any:
        """View a request's tensor."""

    def join(self, parts: Sequence[Any]) -> Any:
        """Join requests along the batch."""

    def write(self, name: str, value: Any, /) -> "triton.Tensor":
        """Wrap an answer for a response."""


class Adapter:
    """One instance of a model in Triton."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model's artifact on the instance's device; what is raised here becomes Triton's load error."""
        config = json.loads(args["model_config"])
        self._inputs = model_inputs(config)
        self._states = SequenceStates(config)
        self._batched = config["max_batch_size"] > 0
        on_gpu = args["model_instance_kind"] == "GPU"
        device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        self._engine = _load(config, Path(args["model_repository"], args["model_version"]), device)
        self._tensors, self._run = _path(self._engine)
        # Triton removes the dimension that it needs only where there are batches.
        ones = () if self._batched else [each["name"] for each in config["input"] if list(each["dims"]) == [1]]
        self._scalars = [name for name in ones if name in self._engine.scalars]
        self._publish(args["model_name"])

    def execute(self, requests: "Sequence[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        """Answer the requests of a dynamic batch by one run of the engine."""
        if not self._batched:
            return [self._alone(request) for request in requests]
        return self._answers(requests)

    def finalize(self) -> None:
        """Let go of the metric, then its family, while Triton listens: later the stub would crash."""
        while self._metric:
            self._metric.pop(0)

    def _answers(self, requests: "Sequence[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        if len(requests) == 1:
            return [self._alone(requests[0])]
        try:
            return self._together(requests)
        except Exception:  # whatever the engine raises: _alone tells it to the client whose request it is
            # One bad request must not fail its neighbours. Halving finds it in 2 log2(n) runs. Running each alone would
            # take n: then one bad request in a hundred slows a server of long batches, which get longer still.
            middle = len(requests) // 2
            return [*self._answers(requests[:middle]), *self._answers(requests[middle:])]

    def _alone(self, request: "triton.InferenceRequest") -> "triton.InferenceResponse":
        try:
            return self._response(request, self._run(self._read(request)))
        except Exception as error:  # whatever the engine raises belongs to the client
            return triton.InferenceResponse(error=triton.TritonError(f"{self._engine.name}: {error}"))

    def _together(self, requests: "Sequence[triton.InferenceRequest]") -> "list[triton.InferenceResponse]":
        arrays = [self._read(request) for request in requests]
        batch = {name: self._tensors.join([each[name] for each in arrays]) for name in self._inputs}
        answer = self._run(batch)
        ends = np.cumsum([len(each[self._inputs[0]]) for each in arrays]).tolist()
        return [
            self._response(request, {name: array[start:end] for name, array in answer.items()})
            for request, start, end in zip(requests, [0, *ends], ends, strict=False)
        ]

    def _read(self, request: "triton.InferenceRequest") -> dict[str, Any]:
        # Looked up by name, each would cost 3 us.
        arrays = {tensor.name(): self._tensors.read(tensor) for tensor in request.inputs()}
        if self._states:
            self._states.fill(request, arrays)
        for name in self._scalars:
            if name in arrays:
                arrays[name] = arrays[name].reshape(())
        return arrays

    def _response(self, request: "triton.InferenceRequest", answer: Mapping[str, Any]) -> "triton.InferenceResponse":
        if self._states:
            self._states.keep(request, answer)
        asked = request.requested_output_names()
        if not self._batched:
            answer = {name: value if value.ndim else value.reshape(1) for name, value in answer.items()}
        return triton.InferenceResponse([self._tensors.write(name, answer[name]) for name in answer if name in asked])

    def _publish(self, model: str) -> None:
        """Make what really runs readable at the metrics endpoint, where every client can see it."""
        family = triton.MetricFamily(
            name=ENGINE_METRIC, description="What runs the model", kind=triton.MetricFamily.GAUGE
        )
        engine = self._engine
        labels = {"model": model, "engine": engine.name, "device": engine.device, "provider": engine.provider}
        metric = family.Metric(labels=labels)
        metric.set(1)
        self._metric = [metric, family]  # the stub takes a metric away when Python drops it


def _load(config: Mapping[str, Any], version: Path, device: str) -> Engine:
    """Load the engine from the version's folder. Errors name the model's file, not the link to it.

    The stub's Python opens paths in ASCII alone, whatever the locale is: it is started from a configuration that
    leaves the locale out (pybind11's `initialize_interpreter`). Another path is opened by its bytes, and the folder
    then has a path by its descriptor, which stays open as long as the process.
    """
    place = os.path.realpath(str(version).encode())
    if place.isascii():
        return load_model(config, Path(place.decode()), device)
    try:
        return load_model(config, Path(f"/proc/self/fd/{os.open(place, os.O_PATH | os.O_DIRECTORY)}"), device)
    except Exception as error:
        words = str(error).encode(errors="surrogateescape").decode(errors="replace")
        raise triton.TritonModelException(words) from None


def _path(engine: Engine) -> tuple[TensorCodec, Callable[[Any], Mapping[str, Any]]]:
    """Choose how tensors reach an engine, and what of it runs them: on a GPU they stay there, if it takes them so."""
    if engine.device != "cpu" and isinstance(engine, DeviceEngine):
        return tensors.DeviceTensors(engine.device), engine.run_tensors
    return tensors, engine.run


class SequenceStates:
    """State that a model hands from one request of a sequence to the next: `sequence_batching { state ... }`.

    Triton gives a model's first request of a sequence the initial state as further inputs. It takes the next state from
    C++ backends alone, so for a Python-based backend it is kept here, by the sequence's id. Raises ArtifactError where
    several instances would share a sequence.
    Source: Triton's user guide, "Implicit State Management"; the Python backend's README, "Implicit Sequence Batching".
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        batching = config.get("sequence_batching") or {}
        self._outputs = {each["input_name"]: each["output_name"] for each in batching.get("state") or []}
        idle_us = int(batching.get("max_sequence_idle_microseconds") or DEFAULT_IDLE_US)
        self._idle_s = max(idle_us, DEFAULT_IDLE_US) / 1e6
        self._kept: dict[object, tuple[Mapping[str, Any], float]] = {}
        """Sequence -> its state by the inputs that take it, and the time in s at which it was kept."""
        groups = config.get("instance_group") or [{}]
        instances = sum(int(group.get("count", 1)) * max(len(group.get("gpus") or ()), 1) for group in groups)
        if self._outputs and "oldest" in batching and instances > 1:
            raise ArtifactError(
                f"with {instances} instances and the strategy `oldest` a sequence changes its instance, and with it "
                "its process, which keeps its state",
                fix="instance_group { count: 1 }, or the strategy `direct`",
            )

    def __bool__(self) -> bool:
        return bool(self._outputs)

    def fill(self, request: "triton.InferenceRequest", arrays: dict[str, Any]) -> None:
        """Put the sequence's state into a request's inputs; the first request has the initial one."""
        if request.flags() & triton.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self._forget_idle()
            return
        kept = self._kept.get(request.correlation_id())
        if kept is None:
            raise ValueError(f"the state of sequence {request.correlation_id()} is not here: it has been idle too long")
        arrays.update(kept[0])

    def keep(self, request: "triton.InferenceRequest", answer: Mapping[str, Any]) -> None:
        """Keep the state for the sequence's next request, if there is one."""
        sequence = request.correlation_id()
        if request.flags() & triton.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            self._kept.pop(sequence, None)
            return
        # A copy: it may lie in an engine's buffer, or be a part of a batch.
        values = {name: copy.deepcopy(answer[output]) for name, output in self._outputs.items()}
        self._kept[sequence] = values, time.monotonic()

    def _forget_idle(self) -> None:
        """Let go of sequences that Triton has ended by itself, of which it takes no further request."""
        before_s = time.monotonic() - 2 * self._idle_s
        for sequence in [each for each, (_, kept_s) in self._kept.items() if kept_s < before_s]:
            del self._kept[sequence]
