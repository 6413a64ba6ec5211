"""Stateful models: each connection carries one sequence after the other, request by request in its order.

Source: Triton's sequence extension of KServe v2: the parameters `sequence_id`, `sequence_start` and `sequence_end`.
"""

import itertools
import math
import random
import re
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loadgen.kserve.grpc_call import PREFIX_BYTES, enclose
from loadgen.kserve.grpc_messages import message, parameters_of
from loadgen.sut.channel import Answer, Outcome, Payload
from loadgen.transport.http1_head import HEAD_END
from servemark.stats.histogram import Histogram

Stamp = Callable[..., bytes]
"""Makes a request, made ahead, one of a sequence: takes its number, and whether it is the `first` or `last` there."""

_PARAMETERS = b'{"parameters":{'
_LENGTHS = re.compile(rb"(?im)^((?:inference-header-)?content-length: )(\d+)")


def _fields(number: int, *, first: bool, last: bool) -> bytes:
    """The parameters in JSON, always of one length: blanks may stand between its tokens."""
    start, end = (str(flag).lower().ljust(5) for flag in (first, last))
    return f'"sequence_id":{number:<20},"sequence_start":{start},"sequence_end":{end}'.encode()


_RESERVED = _fields(0, first=False, last=False)


def reserved_http(request: bytes) -> bytes:
    """A whole HTTP request with room for the parameters, for `stamp_http` to fill. Made ahead."""
    head, end, body = request.partition(HEAD_END)
    own = body.startswith(_PARAMETERS)  # --request-parameter
    room = _PARAMETERS + _RESERVED + (b"," if own else b"},")
    rest = body.removeprefix(_PARAMETERS if own else b"{")
    longer = _LENGTHS.sub(lambda found: found[1] + b"%d" % (int(found[2]) + len(room) + len(rest) - len(body)), head)
    return longer + end + room + rest


def stamp_http(request: bytes, number: int, *, first: bool, last: bool) -> bytes:
    """A request with room made one of a sequence."""
    return request.replace(_RESERVED, _fields(number, first=first, last=last), 1)


def stamp_grpc(request: bytes, number: int, *, first: bool, last: bool) -> bytes:
    """An enclosed ModelInferRequest made one of a sequence: the fields of a message may come in any order."""
    flags = {"sequence_start": first, "sequence_end": last}
    parameters = {"sequence_id": number, **{name: True for name, on in flags.items() if on}}
    return enclose(with_parameters(parameters) + request[PREFIX_BYTES:])


def with_parameters(parameters: Mapping[str, object]) -> bytes:
    """The part of a serialised ModelInferRequest that holds these parameters."""
    return bytes(message("ModelInferRequest", parameters=parameters_of(parameters)).SerializeToString())


@dataclass(frozen=True, slots=True)
class InSequence(Payload):
    """A request as it was sent: its sequence, whether it is the last one there, and when that began (ns)."""

    sequence: int = 0
    last: bool = False
    begun: int = 0


class Sequences:
    """State that all connections of a run share: sequence lengths, correlation ids, and how `stamp` marks a request."""

    def __init__(self, length: int, first_id: int, stamp: Stamp, *, variation: float = 0.0, seed: int = 0) -> None:
        self.length, self.first_id, self.stamp = length, first_id, stamp
        self._ids = itertools.count(first_id)
        self._least = max(math.ceil(length * (1 - variation)), 1)
        self._most = max(math.floor(length * (1 + variation)), self._least)
        self._random = random.Random(seed)  # noqa: S311 - lengths, no secret

    def begin(self) -> tuple[int, int]:
        """Return the correlation id of another sequence, and its length: uniform within the variation."""
        return next(self._ids), self._random.randint(self._least, self._most)


def carrying(channel: Any, sequences: Sequences) -> Any:
    """A class of channels like `channel`, each with a sequence of its own; a failed request ends its sequence.

    A channel takes the next request when the last one was answered, so that those of a sequence keep their order.
    """

    class Carrying(channel):  # type: ignore[misc]
        __slots__ = ("_begun", "_length", "_number", "_place")

        def __init__(self, *arguments: Any) -> None:
            self._place = self._number = self._length = self._begun = 0
            super().__init__(*arguments)

        def start(self) -> None:
            own: Any = self
            payload: Payload = own.payload
            if payload.alone:
                # A whole sequence, which leaves nothing at the server: the load has its id again.
                request = sequences.stamp(payload.request, sequences.first_id, first=True, last=True)
                own.payload = replace(payload, request=request)
            else:
                if self._place == 0:
                    (self._number, self._length), self._begun = sequences.begin(), self.scheduled
                last = self._place == self._length - 1
                request = sequences.stamp(payload.request, self._number, first=self._place == 0, last=last)
                own.payload = InSequence(
                    request, payload.golden_rows, payload.examples, sequence=self._number, last=last, begun=self._begun
                )
                self._place = 0 if last else self._place + 1
            super().start()

        def readable(self) -> Answer | None:
            answer: Answer | None = super().readable()
            if answer is not None and answer.error is not None:
                self._place = 0
            return answer

        def close(self) -> None:
            self._place = 0
            super().close()

    return Carrying


class SequenceRecorder:
    """Whole sequences: how many ended well in the interval, how many that began in it broke, and how long they took."""

    def __init__(self, length: int, in_flight: int) -> None:
        self.length, self.in_flight = length, in_flight
        self.duration = Histogram()
        self.completed = self.broken = 0
        self._whole = array("q")
        self._broken = array("q")

    def take(self, outcome: Outcome) -> None:
        """Take one outcome."""
        payload = outcome.payload
        if isinstance(payload, InSequence):
            if outcome.error is not None:
                self._broken.append(payload.begun)
            elif payload.last:
                self._whole.extend((payload.begun, outcome.done))

    def flush(self, start: int, end: int) -> None:
        """Count what has been gathered, for an interval in ns."""
        whole = np.array(self._whole, dtype=np.int64).reshape(-1, 2)
        broken = np.array(self._broken, dtype=np.int64)
        del self._whole[:], self._broken[:]
        begun, done = whole[:, 0], whole[:, 1]
        self.completed += int(((done >= start) & (done < end)).sum())
        self.duration.record((done - begun)[(begun >= start) & (begun < end)])
        self.broken += int(((broken >= start) & (broken < end)).sum())
