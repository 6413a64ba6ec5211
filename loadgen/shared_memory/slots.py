"""Tensors in memory that a server sees too: requests and answers only name the place. What carries them is another's.

Inputs are written once, ahead; each request on its way borrows a place for its outputs. A request is two parts that are
written ahead, one that names its inputs and one that names its place, so that nothing is serialised in the run.
Source: Triton's "Shared-Memory Extension".
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from loadgen.shared_memory.region import Region
from loadgen.sut.channel import Answer, Channel, Payload, State
from servemark.workload import Arrays, Tensor

ALIGNMENT = 256
"""In bytes: TensorRT takes no tensor at another address (NvInferRuntime.h, `setTensorAddress`)."""


class SharedTensor(NamedTuple):
    """A tensor in a region: `shape` with the batch dimension, offset and size in bytes."""

    tensor: Tensor
    shape: tuple[int, ...]
    region: str
    offset: int
    size: int

    @property
    def parameters(self) -> dict[str, str | int]:
        """What names the place in a message. An offset of 0 is left out: over gRPC a 0 would be no value."""
        named: dict[str, str | int] = {"shared_memory_region": self.region, "shared_memory_byte_size": self.size}
        return {**named, "shared_memory_offset": self.offset} if self.offset else named


class Wire(Protocol):
    """How a protocol names places."""

    def inputs(self, placed: Sequence[SharedTensor]) -> bytes:
        """The part of a request that names the model and its inputs."""

    def outputs(self, placed: Sequence[SharedTensor]) -> bytes:
        """The part that names the places of its outputs."""

    def whole(self, inputs: bytes, outputs: bytes) -> bytes:
        """A request of the two, as it travels."""


class Layout:
    """Gives out aligned places in a region that is made when its size is known."""

    def __init__(self, region: str) -> None:
        self.region = region
        self.size = 0

    def place(self, tensor: Tensor, shape: tuple[int, ...]) -> SharedTensor:
        """A place at the end."""
        placed = SharedTensor(tensor, shape, self.region, self.size, math.prod(shape) * tensor.dtype.itemsize)
        self.size = -(-(placed.offset + placed.size) // ALIGNMENT) * ALIGNMENT
        return placed


class Slot(NamedTuple):
    """Room for the outputs of one request, and the part of the request that names it."""

    outputs: tuple[SharedTensor, ...]
    part: bytes


class Slots:
    """Slots for as many requests as may be on their way."""

    def __init__(self, region: Region, wire: Wire, rooms: Iterable[tuple[SharedTensor, ...]]) -> None:
        self.wire = wire
        self._region = region
        self._free = deque(Slot(outputs, wire.outputs(outputs)) for outputs in rooms)

    def take(self) -> Slot:
        """The one that was used last, which is in the processor's cache."""
        return self._free.pop()

    def give_back(self, place: Slot, *, answered: bool) -> None:
        """A server may still write for a request that was given up: its place is used again as late as can be."""
        if answered:
            self._free.append(place)
        else:
            self._free.appendleft(place)

    def read(self, place: Slot) -> Arrays:
        """Copy the outputs."""
        return {
            placed.tensor.name: np.frombuffer(
                self._region.read(placed.offset, placed.size), placed.tensor.dtype
            ).reshape(placed.shape)
            for placed in place.outputs
        }


class SharedAnswer(NamedTuple):
    """An answer to a golden request with its outputs, copied before their place is used again."""

    answer: Answer
    outputs: Arrays

    @property
    def error(self) -> str | None:
        """Its kind of failure, None where it is right."""
        return self.answer.error

    @property
    def size(self) -> int:
        """Bytes of the message, without the outputs."""
        return self.answer.size

    def message(self) -> str:
        """The server's own words about a failed request."""
        return self.answer.message()

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        """The outputs."""
        return {tensor.name: self.outputs[tensor.name] for tensor in outputs}


class SharedChannel:
    """A channel over any protocol, the carrier, which borrows a place for each request."""

    __slots__ = (
        "_carrier", "_place", "_places", "done", "fd", "payload", "scheduled", "sent", "state", "wants", "watched",
    )  # fmt: skip

    def __init__(self, carrier: Channel, places: Slots) -> None:
        self._carrier = carrier
        self._places = places
        self._place: Slot | None = None
        self.payload: Payload | None = None
        self.scheduled = self.sent = self.watched = 0
        self._follow()

    def _follow(self) -> None:
        carrier = self._carrier
        self.fd, self.state, self.wants, self.done = carrier.fd, carrier.state, carrier.wants, carrier.done

    def open(self) -> None:
        """Begin to connect. Raises ConnectionFailed."""
        self._carrier.open()
        self._follow()

    def connected(self) -> None:
        """Go on connecting. Raises ConnectionFailed."""
        self._carrier.connected()
        self._follow()

    def start(self) -> None:
        """Send the payload with a place for its outputs. Raises ConnectionFailed."""
        assert self.payload is not None
        # There are as many places as requests may be on their way.
        self._place = self._places.take()
        self._carrier.payload = Payload(self._places.wire.whole(self.payload.request, self._place.part))
        self._carrier.start()
        self._follow()

    def writable(self) -> None:
        """Send more of a request. Raises ConnectionFailed."""
        self._carrier.writable()
        self._follow()

    def readable(self) -> Answer | None:
        """Take what has come; of a golden request the outputs too. Raises ConnectionFailed."""
        answer = self._carrier.readable()
        self._follow()
        if answer is None:
            return None
        place, self._place = self._place, None
        assert place is not None
        assert self.payload is not None
        if self.payload.golden_rows and not answer.error:
            answer = SharedAnswer(answer, self._places.read(place))
        self._places.give_back(place, answered=True)
        return answer

    def on_unsolicited_data(self) -> bool:
        """Take what came while no request was on its way. Raises ConnectionFailed."""
        usable = self._carrier.on_unsolicited_data()
        self._follow()
        return usable

    def close(self) -> None:
        """Close the carrier; the place of a request that was on its way is given back."""
        self._carrier.close()
        self._follow()
        assert self.state is State.CLOSED
        if self._place is not None:
            self._places.give_back(self._place, answered=False)
            self._place = None
