"""Requests with an id of their own, so that a server's trace of one is found again."""

from collections.abc import Iterator
from dataclasses import dataclass

from loadgen.sut.channel import Payload

PREFIX = "servemark"
DIGITS = 12
PLACE_OF_NUMBER = PREFIX + "#" * DIGITS
"""Id of a request that was made ahead; each time that it is sent, its number stands there. All are equally long."""
_PLACE = PLACE_OF_NUMBER.encode()


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
