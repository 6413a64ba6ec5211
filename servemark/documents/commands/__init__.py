"""Each command's document: its arguments and options, each declared once, and its help, which is the docstring.

`servemark.cli` makes the command line of it. A module has the commands of one subject, each by its name; here
are the options that several commands have, and the types that their documents extend.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Struct

from servemark.documents.fields import Word, argument, folder, option
from servemark.documents.flags import Value, request_of
from servemark.documents.load import AUTO
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.paths import MODEL_REPOSITORY, RESULTS, found


def existing(_: str, given: str) -> Path:
    """Read a path that may lie below SERVEMARK_HOME."""
    return found(given)


Json = Annotated[bool, option("Print one JSON document, and nothing else but errors.")]
Report = Annotated[bool, option("Write report.html, one self-contained page, beside the result.")]
Verbose = Annotated[bool, option("Show every constraint and figure.", short="-v")]
Trust = Annotated[
    bool, option("Accept, without asking, the programs, paths and hosts that a foreign result or --config names.")
]
SuiteName = Annotated[str, argument("aibench, ai-matrix, mlperf-inference, today, subset, own or all.", "SUITE")]
Workload = Annotated[
    Word, argument("Workload; `servemark list` shows them.", "WORKLOAD", name="model", completion="workload")
]
Only = Annotated[tuple[str, ...], option("Only this one of the suite; more than once.", metavar="WORKLOAD")]
Out = Annotated[Path, folder("Where results are made.", RESULTS)]
Repository = Annotated[Path, folder("Triton model repository.", MODEL_REPOSITORY)]
OneDevice = Annotated[str, option("cpu or cuda:N.", metavar="DEVICE")]
Resume = Annotated[
    str, option("Go on in this directory with the same options, where a command was cut short.", metavar="DIR")
]
NoCeilings = Annotated[bool, option("Leave out the ceilings, and the shares of them.")]


class Command(Struct, frozen=True, kw_only=True):
    """One command as it is asked for."""

    TAKES: ClassVar[frozenset[str]] = frozenset()
    """The options of a request that it takes, by their `commands`."""
    USUAL: ClassVar[Mapping[str, str]] = {}
    """Its own defaults of those."""
    SHORT: ClassVar[str] = ""
    """Its line in the help of the command that it is a part of."""
    PARTS: ClassVar[Mapping[str, type["Command"]]] = {}
    """Commands below it."""
    ALONE: ClassVar[bool] = False
    """It does something without one of them too."""
    PASSES_ON: ClassVar[bool] = False
    """Options that it does not know go to its last argument."""
    given: Mapping[str, Value] = {}
    """The values of those, by name; those at their defaults too."""


class Reported(Command, frozen=True, kw_only=True):
    """A command whose result is shown at its end."""

    report: Report = False
    json: Json = False


class Loaded(Command, frozen=True, kw_only=True):
    """A command with options of a load."""

    def request(self, workload: str, **more: Value) -> RunRequest:
        """Make the request of a run, with other values of some options. Raises OptionError."""
        return request_of({**self.given, "model": workload, **more})

    def require_scoring(self, *, given: bool) -> None:
        """Refuse a language model where no answers are scored. Raises OptionError."""
        if self.given["language_model"] and not given:
            raise OptionError("--language-model decodes answers that are scored, and none are", fix="add --quality")

    def require_fixed_warmup(self) -> None:
        """Refuse a warm-up that each turn of several ends by itself. Raises OptionError."""
        if self.given["warmup"] == AUTO:
            raise OptionError(
                "--warmup auto would give each turn another warm-up",
                fix="give seconds, like --warmup 1: what answers first is warmed before its turns besides",
            )
