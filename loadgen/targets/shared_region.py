"""Memory that this process shares with a server, the system's or a GPU's: its name, and what a killed process has left.

On a GPU it is allocated here, and opened by the server with its CUDA interprocess handle.
Source: CUDA Runtime API, cudaIpcGetMemHandle; CUDA C++ Programming Guide, "Interprocess Communication"; Triton's
"Shared-Memory Extension". Over NVIDIA's cuda-bindings, whose functions return (error, value, ...).
"""

import contextlib
import ctypes
import fcntl
import importlib
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from servemark.errors import OptionError, ServerError

FOLDER = Path("/dev/shm")  # noqa: S108  where shm_open, which Triton calls, looks for a key
PREFIX = "servemark_load_"
_LESS = "--shared-memory none, or less of it: --max-in-flight N, --batch-size N"


class Region(ABC):
    """Memory of one size, which the server knows by `name`; `kind` is its kind as --shared-memory has it.

    A file of that name in FOLDER is locked as long as this process lives: it tells others whose region is abandoned.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self._path, hidden = FOLDER / name, FOLDER / f".{name}"
        try:
            self._file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                # Nobody sees it under its name before it is locked.
                fcntl.flock(self._file, fcntl.LOCK_EX)
                self._path.hardlink_to(hidden)
            except OSError:
                os.close(self._file)
                raise
            finally:
                hidden.unlink()
        except OSError as error:
            raise ServerError(f"no shared memory {self._path}: {error.strerror}", fix="--shared-memory none") from error

    @property
    @abstractmethod
    def registration(self) -> dict[str, Any]:
        """Return the fields that the server needs in order to find the region."""

    @abstractmethod
    def write(self, offset: int, data: bytes) -> None:
        """Copy into it."""

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes:
        """Copy a part of it."""

    def close(self) -> None:
        """Give the memory back; safe to call twice."""
        if self._file >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1


class PosixRegion(Region):
    """System shared memory (shm_open); whoever has it mapped when it is closed keeps it until then."""

    kind = "system"

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        try:
            # Unlike truncation this takes the memory, so that a full /dev/shm is an error here and no SIGBUS later.
            os.posix_fallocate(self._file, 0, size)
        except OSError as error:
            self.close()
            raise ServerError(f"{FOLDER} has no room for {size / 1e6:.0f} MB: {error.strerror}", fix=_LESS) from error

    @property
    def registration(self) -> dict[str, Any]:
        return {"key": f"/{self.name}", "offset": 0, "byte_size": self.size}

    def write(self, offset: int, data: bytes) -> None:
        os.pwrite(self._file, data, offset)

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._file, size, offset)


def new_name(kind: str) -> str:
    """A name that no run had before: a server remembers the regions of one that was killed."""
    return f"{PREFIX}{kind}_{os.getpid()}_{secrets.token_hex(4)}"


def abandoned() -> Iterator[tuple[str, str]]:
    """Kind and name of each region of this user's whose process was killed.

    Its file is gone when the next one is asked for.
    """
    for path in FOLDER.glob(f"{PREFIX}*"):
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # gone by now, or another user's
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                continue  # root could take it away, and must not
            with contextlib.suppress(OSError):  # it is in use
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path.name.removeprefix(PREFIX).partition("_")[0], path.name
                path.unlink(missing_ok=True)
        finally:
            os.close(fd)


GRANULE = 2 << 20
"""Allocations are whole multiples of it: the handle of a smaller one opens its neighbours too (Programming Guide)."""
_INSTEAD = "--shared-memory system"


class CudaRegion(Region):
    """Memory of one GPU. Raises ServerError with CUDA's message where none is left, OptionError without a GPU."""

    kind = "cuda"

    def __init__(self, name: str, size: int, device: int) -> None:
        self._cuda = runtime()
        self._device = device
        self._pointer = 0
        super().__init__(name, -(-size // GRANULE) * GRANULE)
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
        super().close()

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
