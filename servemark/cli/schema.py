"""`servemark schema`: the JSON Schema of what servemark writes."""

from typing import Annotated

import msgspec
import typer

from servemark.cli._command import one_command
from servemark.documents.request import RunRequest
from servemark.results.directory import print_json
from servemark.results.json_schema import json_schema
from servemark.results.kinds import KINDS

REQUEST = "request"
NAMED = ", ".join((*KINDS, REQUEST))


def schema(
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help=f"Kind of document: {NAMED}.")] = "load",
) -> None:
    """Print the JSON Schema (draft 2020-12) of a kind of document.

    Example: servemark schema comparison
    """
    print_json(msgspec.json.schema(RunRequest) if kind == REQUEST else json_schema(kind))


app = one_command(schema)
