"""KServe v2 over HTTP with system shared memory: tensors stay in memory, requests and answers only name the place.

Inputs are written once, ahead, into one region that is registered with the server; each connection has a part of a
second region for its outputs. Source: Triton's "Shared-Memory Extension".
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadgen.channel import Answer, Arrays
from loadgen.connection import Connection, Response
from loadgen.kserve import REMEMBERED, Head, ResponseChecker, judge_description, request_head
from loadgen.tcp import Address
from servemark.errors import ServerError
from servemark.models import Tensor

FOLDER = Path("/dev/shm")  # noqa: S108  where shm_open, which Triton calls, looks for a key
PREFIX = "servemark_load_"
ALIGNMENT = 64
OFFSET_DIGITS = 12
"""Offsets are padded with blanks to one width, so that a request has the same length on every connection."""


class Region:
    """A POSIX shared memory object, which grows as it is written to; `key` is its name for shm_open."""

    def __init__(self, role: str) -> None:
        self.name = f"{PREFIX}{os.getpid()}_{role}"
        self.key = f"/{self.name}"
        self.size = 0
        try:
            self._fd = os.open(FOLDER / self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise ServerError(f"no shared memory {self.key}: {error.strerror}", fix="--shared-memory none") from error

    def append(self, data: bytes) -> int:
        """Write at the end, aligned; returns the offset. Raises ServerError where memory is short."""
        offset = self.reserve(len(data))
        os.pwrite(self._fd, data, offset)
        return offset

    def reserve(self, size: int) -> int:
        """Make room at the end, aligned; returns the offset. Raises ServerError where memory is short."""
        offset = self.size
        self.size = -(-(offset + size) // ALIGNMENT) * ALIGNMENT
        try:
            # Unlike truncation this takes the memory, so that a full /dev/shm is an error here and no SIGBUS later.
            os.posix_fallocate(self._fd, 0, self.size)
        except OSError as error:
            raise ServerError(
                f"{FOLDER} has no room for {self.size / 1e6:.0f} MB: {error.strerror}", fix="--shared-memory none"
            ) from error
        return offset

    def read(self, offset: int, size: int) -> bytes:
        """Copy a part."""
        return os.pread(self._fd, size, offset)

    def close(self) -> None:
        """Remove it; who has it mapped keeps it until then."""
        os.close(self._fd)
        (FOLDER / self.name).unlink(missing_ok=True)


class Request(NamedTuple):
    """One request in parts, between which a connection puts the offsets of its outputs."""

    parts: tuple[bytes, ...]


def sweep() -> None:
    """Remove what runs that were killed have left."""
    for path in FOLDER.glob(f"{PREFIX}*"):
        owner = path.name.removeprefix(PREFIX).partition("_")[0]
        if not (owner.isdecimal() and Path("/proc", owner).exists()):
            path.unlink(missing_ok=True)


def encoder(
    host: str, model: str, inputs: Region, outputs: Region, sizes: Mapping[str, int], datatypes: Mapping[str, str]
) -> Callable[[Arrays], Request]:
    """Make what writes a batch into the input region and composes its request; `sizes` are the outputs' in bytes."""

    def encode(arrays: Arrays) -> Request:
        listed = []
        for name, array in arrays.items():
            offset = inputs.append(np.ascontiguousarray(array).tobytes())
            place = {**_place(inputs, array.nbytes), "shared_memory_offset": offset}
            listed.append({"name": name, "shape": list(array.shape), "datatype": datatypes[name], "parameters": place})
        parts = [_json({"inputs": listed}).removesuffix("}") + ',"outputs":[']
        for name, size in sizes.items():
            described = _json({"name": name, "parameters": _place(outputs, size)}).removesuffix("}}")
            parts[-1] += f'{described},"shared_memory_offset":'
            parts.append("}},")
        parts[-1] = "}}]}"
        length = sum(map(len, parts)) + OFFSET_DIGITS * len(sizes)
        head = request_head(host, model, {"Content-Type": "application/json", "Content-Length": length})
        return Request((head + parts[0].encode(), *(part.encode() for part in parts[1:])))

    return encode


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _place(region: Region, size: int) -> dict[str, Any]:
    return {"shared_memory_region": region.name, "shared_memory_byte_size": size}


class SharedChecker(ResponseChecker):
    """Judges answers whose outputs are in shared memory: the text only describes them, and repeats itself."""

    def judge(self, head: Head, body: bytes) -> str | None:
        """The kind of error of a complete response, None where it is right."""
        if head.status != 200:
            return f"http_{head.status}"
        if body not in self._headers:
            if len(self._headers) >= REMEMBERED:
                self._headers.clear()
            self._headers[body] = (self._described(body), 0)
        return self._headers[body][0]

    def _described(self, body: bytes) -> str | None:
        try:
            found = {output["name"]: output for output in json.loads(body)["outputs"]}
            errors = (judge_description(found.get(tensor.name), tensor, self.batch_size) for tensor in self.outputs)
            return next((error for error in errors if error), None)
        except (ValueError, KeyError, TypeError, AttributeError):
            return "malformed_response"


class SharedAnswer(NamedTuple):
    """A response to a golden request with its outputs, copied before the connection's part is used again."""

    response: Response
    outputs: Arrays

    @property
    def error(self) -> str | None:
        """Its kind of failure, None where it is right."""
        return self.response.error

    @property
    def size(self) -> int:
        """Bytes of the body, without the outputs."""
        return self.response.size

    def message(self) -> str:
        """The server's own words about a failed request."""
        return self.response.message()

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        """The outputs."""
        return {tensor.name: self.outputs[tensor.name] for tensor in outputs}


class SharedConnection(Connection):
    """A channel whose outputs lie in a place of its own: taken from `free` when it opens, given back at its close."""

    __slots__ = ("_free", "_offsets", "_place", "_region")

    def __init__(self, address: Address, checker: ResponseChecker, region: Region, free: list[dict[str, int]]) -> None:
        super().__init__(address, checker)
        self._region = region
        self._free = free
        self._place: dict[str, int] = {}
        self._offsets: list[bytes] = []

    def open(self) -> None:
        """Begin to connect. Raises ConnectionFailed where that fails at once."""
        self._place = self._free.pop()  # never empty: there are as many as requests may be on their way
        self._offsets = [f"{offset:>{OFFSET_DIGITS}}".encode() for offset in self._place.values()]
        super().open()

    def close(self) -> None:
        """Close the socket; a server that still works on a request may write to the place once more, into no answer."""
        super().close()
        if self._place:
            self._free.append(self._place)
            self._place = {}

    def request(self, made: Any) -> bytes:
        """The payload's request with the places of this connection's outputs."""
        first, *rest = made.parts
        return b"".join([first, *(piece for pair in zip(self._offsets, rest, strict=True) for piece in pair)])

    def readable(self) -> Answer | None:
        """Take what has come; of a golden request the outputs too. Raises ConnectionFailed, MalformedResponse."""
        response = super().readable()
        if not isinstance(response, Response) or response.error or not (self.payload and self.payload.golden_rows):
            return response
        outputs = {}
        described = {output["name"]: output["shape"] for output in json.loads(response.body)["outputs"]}
        for tensor in self._checker.outputs:
            shape = described[tensor.name]
            data = self._region.read(self._place[tensor.name], math.prod(shape) * tensor.dtype.itemsize)
            outputs[tensor.name] = np.frombuffer(data, tensor.dtype).reshape(shape)
        return SharedAnswer(response, outputs)
