"""The driver's view of the system under test: channels that carry one request at a time, and their answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol, Self

from servemark.workload import Arrays, Tensor

PREFIX = "servemark"
DIGITS = 12
PLACE_OF_NUMBER = PREFIX + "#" * DIGITS
"""Id of a request that was made ahead; each time that it is sent, its number stands there. All are equally long."""
_PLACE = PLACE_OF_NUMBER.encode()
READ, WRITE = 0x001, 0x004
"""Events that a channel waits for: epoll's EPOLLIN and EPOLLOUT."""
MAX_CHARACTERS = 300
"""Of the words about an output that is not as described."""


@dataclass(frozen=True, slots=True)
class Payload:
    """One request, made ahead; `golden_rows` are the rows of the golden samples it is made of, if it is."""

    request: Any
    """Request in the form that the target's channels send: bytes on the wire, arrays in-process."""
    golden_rows: tuple[int, ...] = ()
    examples: tuple[int, ...] = ()
    """The labelled examples that its rows are, where their answers are scored."""
    alone: bool = field(default=False, kw_only=True)
    """It goes out before the load: where a run has sequences it is a whole one."""
    plain: bool = field(init=False)
    """Of a right answer to it nothing but its times and its size is asked."""

    def __post_init__(self) -> None:
        plain = type(self) is Payload and not self.golden_rows and not self.examples
        object.__setattr__(self, "plain", plain)


class Answer(Protocol):
    """A complete answer, already judged. What else it holds is read only when it is asked for."""

    @property
    def error(self) -> str | None:
        """Its kind of failure, None where it is right."""

    @property
    def size(self) -> int:
        """Bytes that it took."""

    def message(self) -> str:
        """The error message of the system under test."""

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        """The outputs of an answer that is right, each with the batch dimension."""


class Mismatch(str):
    """A kind of failure, as other kinds a text, with `words` about the first output that is not as described.

    They are made where the answer is judged, and kept with the judgement where that is remembered.
    """

    __slots__ = ("words",)
    words: str

    def __new__(cls, kind: str, words: str) -> Self:
        made = super().__new__(cls, kind)
        made.words = words[:MAX_CHARACTERS]
        return made

    @classmethod
    def of(cls, kind: str, tensor: Tensor, lead: Sequence[int], seen: str) -> Self:
        """Name an output of a batch of `lead`, as it is expected, and what was seen."""
        return cls(kind, f"output {tensor.name!r} is expected as {_form(tensor, lead)}, and the answer has {seen}")

    @classmethod
    def missing(cls, tensor: Tensor, lead: Sequence[int], listed: Iterable[object]) -> Self:
        """Name an output that an answer does not have, and those that it has."""
        has = ", ".join(map(str, listed)) or "none"
        return cls("missing_output", f"output {tensor.name!r} {_form(tensor, lead)} is missing; the answer has {has}")


def judge_outputs(
    described: Mapping[str, Any],
    outputs: Iterable[Tensor],
    lead: Sequence[int],
    judge: Callable[[Any, Tensor, Sequence[int]], str | None],
) -> str | None:
    """Return the kind of error of the first output that is missing or judged wrong; None if all are right."""
    for tensor in outputs:
        output = described.get(tensor.name)
        error = Mismatch.missing(tensor, lead, described) if output is None else judge(output, tensor, lead)
        if error:
            return error
    return None


def _form(tensor: Tensor, lead: Sequence[int]) -> str:
    return f"{tensor.datatype}{[*lead, *tensor.shape]}"


Times = tuple[int, int, int, int]
"""Of a right answer: when it was scheduled, sent and done, in ns of the monotonic clock, and its bytes."""


class Outcome(NamedTuple):
    """Result of one request; times in ns of the monotonic clock. `sent` is 0 if it was never sent."""

    payload: Payload
    scheduled: int
    sent: int
    done: int
    error: str | None
    message: str
    response: Answer | None

    def words(self) -> str:
        """Return what is said about its failure: how outputs differ, or what the server says."""
        if isinstance(self.error, Mismatch):
            return self.error.words
        return self.message if self.response is None else self.response.message()


class State(Enum):
    """State of a channel."""

    CLOSED = auto()
    CONNECTING = auto()
    IDLE = auto()
    BUSY = auto()
    SPENT = auto()
    """Its answer has come, but it cannot carry another request."""


class ConnectionFailed(Exception):  # noqa: N818 - an outcome that is counted, not a fault of ours
    """The channel broke; `kind` is the error's name in the result."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Channel(ABC):
    """Carries one request at a time and never blocks. All methods but two, which say so, may raise ConnectionFailed.

    The driver sets `payload`, `scheduled`, `deadline`, `sent` and `watched`, and calls what epoll says of `fd`; the
    channel keeps `state` and `wants` (READ, WRITE or both: what it waits for now) and stamps `done`.
    """

    __slots__ = ("deadline", "done", "fd", "payload", "scheduled", "sent", "state", "wants", "watched")

    def __init__(self) -> None:
        self.fd = -1
        self.state = State.CLOSED
        self.wants = self.watched = 0
        self.payload: Payload | None = None
        self.scheduled = 0
        self.deadline = 0
        """An answer after it is none, in ns of the monotonic clock."""
        self.sent = 0
        self.done = 0
        """When the last answer was complete, in ns of the monotonic clock."""

    @abstractmethod
    def open(self) -> None:
        """Begin to connect: `fd` is valid and the state CONNECTING."""

    @abstractmethod
    def connected(self) -> None:
        """Go on connecting, when what it wants has come; IDLE once it is done, handshakes included."""

    @abstractmethod
    def start(self) -> None:
        """Send the payload, as much of it as goes out at once: BUSY."""

    def writable(self) -> None:
        """Send more of a request that did not go out at once."""
        raise NotImplementedError

    @abstractmethod
    def readable(self) -> Answer | None:
        """Take what has come; the answer once it is complete: IDLE or SPENT."""

    @abstractmethod
    def on_unsolicited_data(self) -> bool:
        """Take what came while no request was in flight; False where the channel cannot be used any more."""

    def cancel(self) -> bool:
        """Give up the request in flight: IDLE and True where the channel can carry another, else it is to be closed.

        Raises nothing.
        """
        return False

    @abstractmethod
    def close(self) -> None:
        """Give everything back and forget what was in flight: CLOSED. Raises nothing."""


@dataclass(frozen=True, slots=True)
class NumberedPayload(Payload):
    """A request and its number."""

    number: int = 0


def numbered(requests: Iterator[Payload]) -> Iterator[NumberedPayload]:
    """Number the requests as they are sent, from 0 on."""
    for number, payload in enumerate(requests):
        request = payload.request.replace(_PLACE, b"%s%0*d" % (PREFIX.encode(), DIGITS, number), 1)
        yield NumberedPayload(request, payload.golden_rows, payload.examples, alone=payload.alone, number=number)


def number_of(request_id: str) -> int | None:
    """Return the number of an id; None for one that is not ours."""
    number = request_id.removeprefix(PREFIX)
    return int(number) if number != request_id and number.isdecimal() and len(number) == DIGITS else None
