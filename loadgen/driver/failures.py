"""Kinds of failure and what is said about them: both bounded, whatever a server answers."""

import re

from loadgen.kserve.server_statistics import failure_kind
from loadgen.sut.channel import Outcome
from loadgen.transport.access import NO_ACCESS, Access
from servemark.output import printable

MAX_KINDS = 50
"""Kinds whose names hold a number of the server's; what comes beyond them is `other`."""
MAX_MESSAGES = 5
"""Maximum number of different messages kept of each kind of error."""
MAX_WORDS = 500
"""Characters that are kept of what a server says about one failed request."""
OTHER = "other"
_NUMBERED = re.compile("(http|grpc_status)_[0-9]+")


class Failures:
    """The kinds and messages that were seen in one run; secrets of `access` are taken out of the messages."""

    def __init__(self, access: Access = NO_ACCESS) -> None:
        self._access = access
        self._numbered: set[str] = set()
        self._messages: dict[str, set[str]] = {}

    def named(self, outcome: Outcome) -> tuple[Outcome, str]:
        """A failed request's outcome with kind and message as they are kept; and the message, if it is to be told."""
        message = printable(self._access.redact(outcome.words())[:MAX_WORDS])
        kind = self.kind(failure_kind(str(outcome.error or ""), message))
        return outcome._replace(message=message, error=kind), self.words(kind, message)

    def kind(self, kind: str) -> str:
        """The kind as it is counted."""
        if _NUMBERED.fullmatch(kind) and kind not in self._numbered:
            if len(self._numbered) == MAX_KINDS:
                return OTHER
            self._numbered.add(kind)
        return kind

    def words(self, kind: str, message: str) -> str:
        """The message, if it is one of the first that its kind came with; "" otherwise."""
        known = self._messages.setdefault(kind, set())
        if len(known) < MAX_MESSAGES:
            known.add(message)
        return message if message in known else ""
