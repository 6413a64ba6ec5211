"""A run's request and configuration from a command line, without Locust; and a request as a command line."""

from collections.abc import Sequence
from typing import Any, TypeVar

from loadgen.load.load_config import LoadConfig, Lookup, in_zoo
from loadgen.targets.open import workload_of
from servemark.cli import build
from servemark.documents.commands import Command
from servemark.documents.commands.measure import Run
from servemark.documents.flags import OPTIONS, given_options
from servemark.documents.request import RunRequest

MODEL = "--model="
Document = TypeVar("Document", bound=Command)


def document(kind: type[Document], *line: str) -> Document:
    """The document of a command line."""
    command: Any = build().commands[kind.__name__.lower()]
    with command.make_context(f"servemark {command.name}", [*line]) as context:
        found: Document = command.document(context)
    return found


def parse(line: Sequence[str]) -> RunRequest:
    """The request that the options of `servemark run` ask for, and `--model=NAME`."""
    model = next((each.removeprefix(MODEL) for each in line if each.startswith(MODEL)), "")
    words = [each for each in line if not each.startswith(MODEL)]
    return document(Run, *words, model or "unnamed").request(model)


def arguments(request: RunRequest) -> list[str]:
    """A request as a command line that `parse` reads."""
    found = []
    for name, value in given_options(request).items():
        flag = OPTIONS[name].spelled
        values = value if isinstance(value, list) else [value]
        found += [flag] if value is True else [f"{flag}={each}" for each in values]
    return found


def request_of(workload: str, *flags: str) -> RunRequest:
    """The request that a command line asks for."""
    return parse([f"{MODEL}{workload}", *flags])


def config(workload: str = "ranking_tiny", *flags: str, lookup: Lookup = in_zoo) -> LoadConfig:
    return LoadConfig.of(request_of(workload, *flags), lookup)


def of_server(url: str, *flags: str, model: str = "m") -> LoadConfig:
    """The configuration of a run on a model as its server, or the flags, describe it."""
    return config("", "--model-name", model, "--url", url, *flags, lookup=workload_of)
