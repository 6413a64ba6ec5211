"""Tensors in memory that a server sees too: requests and answers only name its slots. Another channel carries them.

Inputs are written once, ahead; each request in flight borrows a slot for its outputs. A request is two parts that are
written ahead, one that names its inputs and one that names its slot, so that nothing is serialised in the run.
Source: Triton's "Shared-Memory Extension".
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from loadgen.kserve.tensors import from_bytes
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
        """Return the parameters that name it in a message. An offset of 0 is left out, because gRPC drops a 0.

        A tensor without elements has none: Triton takes no place of 0 bytes, and it has nothing to share.
        """
        if not self.size:
            return {}
        named: dict[str, str | int] = {"shared_memory_region": self.region, "shared_memory_byte_size": self.size}
        return {**named, "shared_memory_offset": self.offset} if self.offset else named


class RequestEncoding(Protocol):
    """Encoding of tensors in shared memory by one protocol."""

    def inputs(self, tensors: Sequence[SharedTensor]) -> bytes:
        """The part of a request that names the model and its inputs."""

    def outputs(self, tensors: Sequence[SharedTensor]) -> bytes:
        """The part that names the slot of its outputs."""

    def request(self, inputs: bytes, outputs: bytes) -> bytes:
        """A request of the two, as it travels."""


class Layout:
    """Lays out aligned tensors in a region that is made when its size is known."""

    def __init__(self, region: str) -> None:
        self.region = region
        self.size = 0

    def add(self, tensor: Tensor, shape: tuple[int, ...], size: int | None = None) -> SharedTensor:
        """Add a tensor at the end; if its elements vary in size, give the bytes that it takes."""
        size = math.prod(shape) * tensor.itemsize if size is None else size
        added = SharedTensor(tensor, shape, self.region, self.size, size)
        self.size = -(-(added.offset + added.size) // ALIGNMENT) * ALIGNMENT
        return added


class Slot(NamedTuple):
    """Memory for the outputs of one request, and the part of the request that names it."""

    outputs: tuple[SharedTensor, ...]
    part: bytes


class Slots:
    """A slot for each request that may be in flight."""

    def __init__(self, region: Region, encoding: RequestEncoding, outputs: Iterable[tuple[SharedTensor, ...]]) -> None:
        self.encoding = encoding
        self._region = region
        self._free = deque(Slot(each, encoding.outputs(each)) for each in outputs)

    def take(self) -> Slot:
        """The one that was used last, which is in the processor's cache."""
        return self._free.pop()

    def give_back(self, slot: Slot, *, answered: bool) -> None:
        """A server may still write for a request that was given up: its slot is used again as late as can be."""
        if answered:
            self._free.append(slot)
        else:
            self._free.appendleft(slot)

    def read(self, slot: Slot) -> Arrays:
        return {
            tensor.tensor.name: from_bytes(
                self._region.read(tensor.offset, tensor.size), tensor.tensor.datatype, tensor.shape
            )
            for tensor in slot.outputs
        }


class SharedAnswer(NamedTuple):
    """An answer to a golden request with its outputs, copied before their slot is used again."""

    answer: Answer
    outputs: Arrays

    @property
    def error(self) -> str | None:
        return self.answer.error

    @property
    def size(self) -> int:
        return self.answer.size

    def message(self) -> str:
        return self.answer.message()

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        return {tensor.name: self.outputs[tensor.name] for tensor in outputs}


class SharedChannel:
    """A channel over any protocol, the carrier, which borrows a slot for each request."""

    __slots__ = (
        "_carrier", "_slot", "_slots", "deadline", "done", "fd", "payload", "scheduled", "sent", "state", "wants",
        "watched",
    )  # fmt: skip

    def __init__(self, carrier: Channel, slots: Slots) -> None:
        self._carrier = carrier
        self._slots = slots
        self._slot: Slot | None = None
        self.payload: Payload | None = None
        self.scheduled = self.deadline = self.sent = self.watched = 0
        self._follow()

    def _follow(self) -> None:
        carrier = self._carrier
        self.fd, self.state, self.wants, self.done = carrier.fd, carrier.state, carrier.wants, carrier.done

    def open(self) -> None:
        self._carrier.open()
        self._follow()

    def connected(self) -> None:
        self._carrier.connected()
        self._follow()

    def start(self) -> None:
        """Send the payload with a slot for its outputs. Raises ConnectionFailed."""
        assert self.payload is not None
        # There are as many slots as requests may be in flight.
        self._slot = self._slots.take()
        self._carrier.payload = Payload(self._slots.encoding.request(self.payload.request, self._slot.part))
        self._carrier.sent = self.sent
        self._carrier.start()
        self._follow()

    def writable(self) -> None:
        self._carrier.writable()
        self._follow()

    def readable(self) -> Answer | None:
        """Take what has come; of a golden or labelled request the outputs too. Raises ConnectionFailed."""
        answer = self._carrier.readable()
        self._follow()
        if answer is None:
            return None
        slot, self._slot = self._slot, None
        assert slot is not None
        assert self.payload is not None
        if (self.payload.golden_rows or self.payload.examples) and not answer.error:
            answer = SharedAnswer(answer, self._slots.read(slot))
        self._slots.give_back(slot, answered=True)
        return answer

    def on_unsolicited_data(self) -> bool:
        """Take what came while no request was in flight. Raises ConnectionFailed."""
        usable = self._carrier.on_unsolicited_data()
        self._follow()
        return usable

    def cancel(self) -> bool:
        """The server may still write to the slot."""
        return False

    def close(self) -> None:
        """Close the carrier; the slot of a request in flight is given back."""
        self._carrier.close()
        self._follow()
        assert self.state is State.CLOSED
        if self._slot is not None:
            self._slots.give_back(self._slot, answered=False)
            self._slot = None
