"""A double of the module cuda.bindings.runtime: device memory is a mapped file, whose path is the interprocess handle.

Functions return (error, value) as NVIDIA's do; tests/loadgen/targets/test_shared_memory.py compares the two.
"""

# ruff: noqa: N802, N815 - the names are NVIDIA's
import ctypes
import mmap
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

HANDLE_SIZE = 64


class Error(IntEnum):
    """cudaError_t, as far as it happens here."""

    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInsufficientDriver = 35
    cudaErrorNoDevice = 100
    cudaErrorInvalidDevice = 101


class Kind(IntEnum):
    """cudaMemcpyKind."""

    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2


SUCCESS = Error.cudaSuccess
INVALID = Error.cudaErrorInvalidValue


class Handle:
    """cudaIpcMemHandle_t, whose bytes are read through its pointer."""

    def __init__(self, content: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(content.ljust(HANDLE_SIZE, b"\0"), HANDLE_SIZE)

    def getPtr(self) -> int:
        return ctypes.addressof(self._buffer)


class FakeCuda(ModuleType):
    """The module; `folder` holds device memory, `calls` what was called and succeeded."""

    CUDA_IPC_HANDLE_SIZE = HANDLE_SIZE
    cudaError_t = Error
    cudaMemcpyKind = Kind

    def __init__(self, folder: Path, *, devices: int = 2, memory: int = 1 << 30) -> None:
        super().__init__("cuda.bindings.runtime")
        self.folder, self.devices, self.memory = folder, devices, memory
        self.device = 0
        self.allocations: dict[int, tuple[mmap.mmap, Path, Any]] = {}
        self.calls: list[str] = []

    def cudaGetDeviceCount(self) -> tuple[Error, int | None]:
        return (SUCCESS, self.devices) if self.devices else (Error.cudaErrorNoDevice, None)

    def cudaGetErrorString(self, error: Error) -> tuple[Error, bytes]:
        return SUCCESS, f"fake {error.name}".encode()

    def cudaSetDevice(self, device: int) -> tuple[Error]:
        if not 0 <= device < self.devices:
            return (Error.cudaErrorInvalidDevice,)
        self.device = device
        return self._done("cudaSetDevice")

    def cudaMalloc(self, size: int) -> tuple[Error, int | None]:
        if size > self.memory:
            return Error.cudaErrorMemoryAllocation, None
        path = self.folder / f"device{self.device}-{len(self.calls)}"
        path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), size)
        view = (ctypes.c_char * size).from_buffer(mapped)
        pointer = ctypes.addressof(view)
        self.allocations[pointer] = (mapped, path, view)
        return *self._done("cudaMalloc"), pointer

    def cudaMemcpy(self, target: int, source: int, count: int, kind: Kind) -> tuple[Error]:
        on_device = kind is Kind.cudaMemcpyHostToDevice, kind is Kind.cudaMemcpyDeviceToHost
        if (self._holds(target, count), self._holds(source, count)) != on_device:
            return (INVALID,)
        ctypes.memmove(target, source, count)
        return self._done(f"cudaMemcpy {kind.name}")

    def cudaDeviceSynchronize(self) -> tuple[Error]:
        return self._done("cudaDeviceSynchronize")

    def cudaIpcGetMemHandle(self, pointer: int) -> tuple[Error, Handle | None]:
        if pointer not in self.allocations:
            return INVALID, None
        return *self._done("cudaIpcGetMemHandle"), Handle(str(self.allocations[pointer][1]).encode())

    def cudaFree(self, pointer: int) -> tuple[Error]:
        if pointer not in self.allocations:
            return (INVALID,)
        self.allocations.pop(pointer)[1].unlink()
        return self._done("cudaFree")

    def _holds(self, pointer: int, count: int) -> bool:
        return any(base <= pointer and pointer + count <= base + len(m) for base, (m, _, _) in self.allocations.items())

    def _done(self, call: str) -> tuple[Error]:
        self.calls.append(call)
        return (SUCCESS,)
