"""A connection to a described endpoint."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.endpoints.messages import AnswerChecker
from loadgen.kserve.http_connection import Connection, Response
from loadgen.sut.channel import Answer
from loadgen.transport.tcp import Address
from servemark.workload import Arrays, Tensor


@dataclass(frozen=True, slots=True)
class DescribedAnswer:
    """A complete answer, already judged, with the checker that can decode it."""

    response: Response
    error: str | None
    checker: AnswerChecker

    @property
    def size(self) -> int:
        """Bytes of its body."""
        return self.response.size

    def message(self) -> str:
        """The server's error message, as far as it can be read."""
        return self.response.message()

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        """The outputs of an answer that is right."""
        return self.checker.decoded(self.response.body, outputs)


class EndpointConnection(Connection):
    """A connection whose answers are decoded as the endpoint's description says."""

    __slots__ = ("_described",)

    def __init__(self, address: Address, checker: AnswerChecker) -> None:
        super().__init__(address, checker)
        self._described = checker

    def readable(self) -> Answer | None:
        response = super().readable()
        if not isinstance(response, Response):
            return None
        error = response.error
        if error is None and self.payload is not None and not self.payload.plain:
            # Its values will be read, and numbers that were only counted may be none.
            error = self._described.judge_values(response.body)
        return DescribedAnswer(response, error, self._described)
