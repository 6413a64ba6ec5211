"""A double of either TensorRT's runtime and of CUDA graphs: `twice` answers Y = 2 X; the host's memory is the GPU's.

It is as strict as the real one: an address has to be aligned, a context needs memory and defers what a new shape needs
to its next run, which no graph may hold, and a graph goes wrong once its context has seen another shape. TensorRT-RTX
compiles a kernel for each shape, unless its runtime cache holds it.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from servemark.frameworks import tensorrt

ALIGNMENT_BYTES = 64
"""PyTorch's on the host; TensorRT's is 256."""
LARGEST_BATCH = 64
COLUMNS = 12
DataType = Enum("DataType", ["FLOAT", "HALF"])
Severity = IntEnum("Severity", ["INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE"], start=0)
Strategy = Enum("Strategy", ["STATIC", "ON_PROFILE_CHANGE", "USER_MANAGED"])
Specialisation = Enum("Specialisation", ["LAZY", "EAGER", "NONE"])


class Logger:
    """ILogger, to be derived from."""

    Severity = Severity

    def __init__(self) -> None: ...


class Capture:
    """CUDAGraph; the runs captured."""

    def __init__(self) -> None:
        self.runs: list[Callable[[], None]] = []

    def replay(self) -> None:
        """Run them again."""
        for run in self.runs:
            run()


class RuntimeCache:
    """IRuntimeCache; the shapes whose kernels it holds."""

    def __init__(self) -> None:
        self.shapes: set[str] = set()

    def serialize(self) -> bytes:
        """Say what it holds."""
        return " ".join(["rtx", *sorted(self.shapes)]).encode()

    def deserialize(self, blob: bytes) -> bool:
        """Refuse what is none."""
        version, *shapes = blob.decode().split(" ")
        if version == "rtx":
            self.shapes |= {*shapes}
        return version == "rtx"


class RuntimeConfig:
    """IRuntimeConfig."""

    dynamic_shapes_kernel_specialization_strategy = Specialisation.LAZY

    def __init__(self) -> None:
        self.strategy = Strategy.STATIC
        self.cache = RuntimeCache()

    def set_execution_context_allocation_strategy(self, strategy: Strategy) -> None:
        """Say who gives the memory."""
        self.strategy = strategy

    def create_runtime_cache(self) -> RuntimeCache:
        """Make an empty one."""
        return RuntimeCache()

    def set_runtime_cache(self, cache: RuntimeCache) -> bool:
        """Keep kernels there."""
        self.cache = cache
        return True


class Context:
    """IExecutionContext."""

    def __init__(self, engine: "Engine", strategy: Strategy, config: RuntimeConfig | None = None) -> None:
        self._engine, self._config = engine, config
        self._memory = 0 if strategy == Strategy.USER_MANAGED else 1
        self._shape: tuple[int, ...] = ()
        self._addresses: dict[str, int] = {}
        self._deferred = True

    def set_device_memory(self, memory: int, size: int) -> None:
        """Give it room for what lies between."""
        self._memory = memory if size >= self._engine.device_memory_size_v2 else 0

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        """Refuse what is outside the profile."""
        if name != "X" or shape[1:] != (COLUMNS,) or not 1 <= shape[0] <= LARGEST_BATCH:
            return self._engine.refuse(f"setInputShape {name} {shape}")
        self._deferred |= shape != self._shape
        self._shape = shape
        return True

    def infer_shapes(self) -> list[str]:
        """Name what lacks a shape; what else is wrong is an exception."""
        if self._engine.trt.shapes_are_faulty:
            self._engine.refuse("inferShapes: a dimension is negative")
            raise RuntimeError("infer_shapes failed")
        return [] if self._shape else ["X"]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        """Both are of one shape."""
        assert name in {"X", "Y"}
        return self._shape

    def set_tensor_address(self, name: str, memory: int) -> bool:
        """Refuse what is not aligned."""
        if memory % ALIGNMENT_BYTES:
            return self._engine.refuse(f"setTensorAddress {name} {memory:#x}")
        self._addresses[name] = memory
        return True

    def is_stream_capturable(self, stream: int) -> bool:
        """Say so before a capture fails; a kernel that only bridges a compilation would be captured for good."""
        assert self._config is not None
        assert self._config.dynamic_shapes_kernel_specialization_strategy == Specialisation.EAGER
        return bool(stream) and self._engine.trt.can_be_captured

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Run, or be captured."""
        if not self._memory or not stream_handle:
            return self._engine.refuse("enqueueV3 without memory, or on the default stream")
        shape, addresses = self._shape, dict(self._addresses)
        if self._config and (kernel := "x".join(map(str, shape))) not in self._config.cache.shapes:
            self._engine.trt.compiled.append(shape)
            self._config.cache.shapes.add(kernel)

        def run() -> None:
            count = int(np.prod(shape))
            x, y = (
                np.ctypeslib.as_array((ctypes.c_float * count).from_address(addresses[each])) for each in ("X", "Y")
            )
            y[:] = x * 2 if shape == self._shape else np.nan

        captured = self._engine.trt.capturing
        if captured is None:
            run()
            self._deferred = False
        elif self._deferred or not self._engine.trt.can_be_captured:
            return self._engine.refuse("operation not permitted when stream is capturing")
        else:
            captured.runs.append(run)
        return True


class Engine:
    """ICudaEngine."""

    num_io_tensors = 2
    device_memory_size_v2 = 1000

    def __init__(self, trt: "FakeTensorRT", logger: Any) -> None:
        self.trt, self._logger = trt, logger

    def get_tensor_name(self, index: int) -> str:
        """X in, Y out."""
        return "XY"[index]

    def get_tensor_dtype(self, _name: str) -> DataType:
        """Both are of one type."""
        return DataType.FLOAT

    def get_tensor_shape(self, _name: str) -> tuple[int, ...]:
        """Both have a batch, and columns."""
        return (-1, 3)

    def create_runtime_config(self) -> RuntimeConfig:
        """Make a configuration, of TensorRT-RTX."""
        return RuntimeConfig()

    def create_execution_context(self, how: Strategy | RuntimeConfig = Strategy.STATIC) -> Context:
        """Make a context."""
        return Context(self, how.strategy, how) if isinstance(how, RuntimeConfig) else Context(self, how)

    def refuse(self, words: str) -> bool:
        """Log an error, one that follows from it, then something that is none."""
        self._logger.log(Severity.ERROR, words)
        self._logger.log(Severity.ERROR, "CUDA: invalid resource handle")
        self._logger.log(Severity.INFO, "something else")
        return False


class FakeTensorRT(SimpleNamespace):
    """The module."""

    ILogger = Logger
    DataType = DataType
    ExecutionContextAllocationStrategy = Strategy
    DynamicShapesKernelSpecializationStrategy = Specialisation
    __version__ = "1.7.1"

    def __init__(self) -> None:
        super().__init__()
        self.capturing: Capture | None = None
        self.can_be_captured = True
        self.shapes_are_faulty = False
        self.compiled: list[tuple[int, ...]] = []
        """TensorRT-RTX's kernels, in order."""
        self.plugins_of: Any = None

    def init_libnvinfer_plugins(self, logger: Any, namespace: str) -> bool:
        """Register the plugins, of which a plan may ask for one."""
        assert not namespace
        self.plugins_of = logger
        return True

    def Runtime(self, logger: Any) -> SimpleNamespace:  # noqa: N802 - TensorRT's name
        """Make a runtime, which reads one plan only."""

        def deserialize_cuda_engine(plan: bytes) -> Engine | None:
            assert self.plugins_of is logger, "a plan with RoiAlign is not read"
            engine = Engine(self, logger)
            return engine if plan == b"twice" or engine.refuse("the plan is of another version") else None

        return SimpleNamespace(deserialize_cuda_engine=deserialize_cuda_engine)

    @contextmanager
    def graph(self, graph: Capture, *, stream: Any, capture_error_mode: str) -> Iterator[None]:
        """Capture, as torch.cuda.graph does."""
        assert stream.cuda_stream
        assert capture_error_mode == "thread_local"
        self.capturing = graph
        try:
            yield
        finally:
            self.capturing = None

    def install(self, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int] = (8, 9)) -> None:
        """Let imports of either TensorRT find it, and PyTorch have a GPU as far as a plan needs one."""
        monkeypatch.setitem(sys.modules, "tensorrt", self)
        monkeypatch.setitem(sys.modules, "tensorrt_rtx_bindings", self)
        monkeypatch.setattr(tensorrt, "ALIGNMENT_BYTES", ALIGNMENT_BYTES)
        stream = SimpleNamespace(cuda_stream=7, wait_stream=lambda _: None, synchronize=lambda: None)
        for name, value in {
            "is_available": lambda: True,
            "get_device_capability": lambda _: capability,
            "get_device_name": lambda _: "NVIDIA L4",
            "set_device": lambda _: None,
            "Stream": lambda _: stream,
            "device": nullcontext,
            "stream": nullcontext,
            "default_stream": lambda _: None,
            "CUDAGraph": Capture,
            "graph": self.graph,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
