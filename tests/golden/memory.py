"""Shared memory as the golden servers know it: Triton's register, unregister and status, for both kinds.

"CUDA" memory is that of tests/doubles/cuda.py: a file whose path is the interprocess handle.
"""

import base64
import mmap
import re
from pathlib import Path
from typing import Any

from tests.golden.tensors import BadRequestError

ROUTE = re.compile(r"/v2/(system|cuda)sharedmemory/region/([^/]+)/(register|unregister)")


def over_http(place: dict[str, Any]) -> dict[str, Any]:
    """A region's place as it travels in JSON. Raises BadRequestError."""
    if "raw_handle" not in place:
        return place
    try:
        return {**place, "raw_handle": base64.b64decode(place["raw_handle"]["b64"], validate=True)}
    except ValueError as error:
        raise BadRequestError(f"'raw_handle' must be valid base64: {error}") from error


def over_grpc(parameters: Any) -> dict[str, Any]:
    """A tensor's place as it travels in protobuf. Raises BadRequestError where a value is missing."""
    kinds = {
        "shared_memory_region": "string_param",
        "shared_memory_offset": "int64_param",
        "shared_memory_byte_size": "int64_param",
    }
    found = {}
    for name, parameter in parameters.items():
        if parameter.WhichOneof("parameter_choice") != kinds[name]:
            raise BadRequestError(f"invalid value for '{name}'; expected {kinds[name]}")
        found[name] = getattr(parameter, kinds[name])
    return found


class Memory:
    """The regions that clients have registered."""

    def __init__(self) -> None:
        self.status: dict[str, dict[str, dict[str, Any]]] = {"system": {}, "cuda": {}}
        self._mapped: dict[str, mmap.mmap] = {}

    def change(self, kind: str, name: str, action: str, place: dict[str, Any]) -> None:
        """Register or unregister a region. Raises BadRequestError as Triton answers."""
        if action == "unregister":
            if self.status[kind].pop(name, None) is not None:
                self._mapped.pop(name).close()
            return
        if name in self._mapped:
            raise BadRequestError(f"shared memory region '{name}' already in manager")
        try:
            if kind == "system":
                path = Path(f"/dev/shm{place['key']}")
            else:
                handle = place["raw_handle"]
                if len(handle) != 64 or not isinstance(place["device_id"], int):
                    raise BadRequestError("failed to register shared memory region: invalid args")
                path = Path(handle.rstrip(b"\0").decode())
            with path.open("r+b") as file:
                self._mapped[name] = mmap.mmap(file.fileno(), place["byte_size"])
        except (OSError, ValueError, KeyError) as error:
            raise BadRequestError(f"Unable to open shared memory region: {error}") from error
        self.status[kind][name] = {"name": name, **{key: place[key] for key in place if key != "raw_handle"}}

    def read(self, place: dict[str, Any]) -> bytes:
        """The tensor that a request's parameters name."""
        region, first, last = self._part(place)
        return region[first:last]

    def write(self, place: dict[str, Any], raw: bytes) -> None:
        """Put an output where a request's parameters want it."""
        region, first, last = self._part(place)
        if len(raw) != last - first:
            raise BadRequestError(f"an output of {len(raw)} bytes, there is room for {last - first}")
        region[first:last] = raw

    def _part(self, place: dict[str, Any]) -> tuple[mmap.mmap, int, int]:
        region = self._mapped.get(place["shared_memory_region"])
        if region is None:
            raise BadRequestError(f"Unable to find shared memory region: '{place['shared_memory_region']}'")
        first = place.get("shared_memory_offset", 0)
        last = first + place["shared_memory_byte_size"]
        if last > len(region):
            raise BadRequestError(f"Invalid offset + byte size for shared memory region: {first} to {last}")
        return region, first, last
