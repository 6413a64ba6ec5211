"""Kinds of failure and what is said about them: both bounded, whatever a server answers."""

import re

MAX_KINDS = 50
"""Kinds whose names hold a number of the server's; what comes beyond them is `other`."""
MAX_MESSAGES = 5
"""How many different messages of each kind of error are kept."""
OTHER = "other"
_NUMBERED = re.compile("(http|grpc_status)_[0-9]+")


class Failures:
    """The kinds and messages that were seen in one run."""

    def __init__(self) -> None:
        self._numbered: set[str] = set()
        self._messages: dict[str, set[str]] = {}

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
