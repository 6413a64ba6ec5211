"""Shared memory on a GPU: allocated here, and opened by the server with its CUDA interprocess handle.

Source: CUDA Runtime API, cudaIpcGetMemHandle; CUDA C++ Programming Guide, "Interprocess Communication"; Triton's
"Shared-Memory Extension". Over NVIDIA's cuda-bindings, whose functions return (error, value, ...).
"""

import contextlib
import ctypes
import importlib
from typing import Any

import numpy as np

from loadgen.shared_memory.region import Claim
from servemark.errors import OptionError, ServerError

GRANULE = 2 << 20
"""Allocations are whole multiples of it: the handle of a smaller one opens its neighbours too (Programming Guide)."""
_INSTEAD = "--shared-memory system"


class CudaRegion:
    """Memory of one GPU. Raises ServerError with CUDA's message where none is left, OptionError without a GPU."""

    kind = "cuda"

    def __init__(self, name: str, size: int, device: int) -> None:
        self.name, self.size = name, -(-size // GRANULE) * GRANULE
        self._cuda = runtime()
        self._device = device
        self._pointer = 0
        self._claim = Claim(name)
        try:
            self._call("cudaSetDevice", device)
            self._pointer = int(self._call("cudaMalloc", self.size))
            self._handle = self._call("cudaIpcGetMemHandle", self._pointer)
        except BaseException:
            self.close()
            raise

    @property
    def registration(self) -> dict[str, Any]:
        """Its interprocess handle, and the device that it is on."""
        # Since cuda-bindings 13 the handle has no attribute with its bytes.
        handle = ctypes.string_at(self._handle.getPtr(), self._cuda.CUDA_IPC_HANDLE_SIZE)
        return {"raw_handle": handle, "device_id": self._device, "byte_size": self.size}

    def write(self, offset: int, data: bytes) -> None:
        """Copy to the device; it is there when this returns."""
        source = np.frombuffer(data, np.uint8).ctypes.data
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._call("cudaMemcpy", self._pointer + offset, source, len(data), kind)
        # A copy from pageable memory returns before its last part is on the device.
        self._call("cudaDeviceSynchronize")

    def read(self, offset: int, size: int) -> bytes:
        found = np.empty(size, np.uint8)
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._call("cudaMemcpy", found.ctypes.data, self._pointer + offset, size, kind)
        return found.tobytes()

    def close(self) -> None:
        """Free the memory, which the server must have let go of; safe to call twice."""
        pointer, self._pointer = self._pointer, 0
        if pointer:
            # A device that has failed has lost its memory anyway.
            with contextlib.suppress(ServerError):
                self._call("cudaFree", pointer)
        self._claim.close()

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call the runtime; its value, None where it has none. Raises ServerError with CUDA's error message."""
        error, *values = getattr(self._cuda, name)(*arguments)
        if error != self._cuda.cudaError_t.cudaSuccess:
            raise ServerError(
                f"{name} of {self.size / 1e6:.0f} MB on cuda:{self._device}: {_error_message(self._cuda, error)}",
                fix=_INSTEAD,
            )
        return values[0] if values else None


def runtime() -> Any:
    """NVIDIA's binding of the CUDA runtime. Raises OptionError where it is not installed."""
    try:
        return importlib.import_module("cuda.bindings.runtime")
    except ImportError as error:
        raise OptionError(
            f"--shared-memory cuda needs NVIDIA's CUDA bindings: {error}", fix="pip install cuda-bindings"
        ) from error


def require_gpu() -> None:
    """Check that this process can use a GPU. Raises OptionError."""
    cuda = runtime()
    error, count = cuda.cudaGetDeviceCount()
    if error != cuda.cudaError_t.cudaSuccess or not count:
        raise OptionError(
            f"--shared-memory cuda: no GPU can be used here: {count or 0} found, {_error_message(cuda, error)}",
            fix=f"run it where the server's GPU is, or {_INSTEAD}",
        )


def _error_message(cuda: Any, error: Any) -> str:
    _, words = cuda.cudaGetErrorString(error)
    return f"{words.decode()} ({error.name})"
