"""Commands that are run at a second of the measured interval: `--at 10:'kill -9 4711'`."""

import shlex
from dataclasses import dataclass
from typing import Self

from servemark.errors import OptionError
from servemark.quantities import SECONDS, number

_FIX = "--at 10:'curl -X POST http://127.0.0.1:8000/v2/repository/models/resnet50_onnxruntime/load'"


@dataclass(frozen=True)
class TimedCommand:
    """A command, and the second of the measured interval at which it is started. No shell reads it."""

    at_s: float
    command: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read S:COMMAND. Raises OptionError."""
        at, _, command = text.partition(":")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise OptionError(f"--at {text!r}: {error}", fix=_FIX) from error
        if not words:
            raise OptionError(f"--at {text!r} is not S:COMMAND", fix=_FIX)
        at_s = number("--at", at, SECONDS)
        if at_s < 0:
            raise OptionError(f"--at {text!r}: it cannot begin before the interval", fix=_FIX)
        return cls(at_s, command.strip())


def parse_all(texts: tuple[str, ...]) -> list[TimedCommand]:
    """Read the commands of a request in the order of their times. Raises OptionError."""
    return sorted((TimedCommand.parse(text) for text in texts), key=lambda each: each.at_s)
