"""`servemark schema`: the JSON Schema of what servemark writes."""

from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.results.directory import print_json
from servemark.results.schema.json_schema import KINDS, json_schema


def schema(
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help=f"Kind of document: {', '.join(KINDS)}.")] = "load",
) -> None:
    """Print the JSON Schema (draft 2020-12) of a kind of document.

    Example: servemark schema comparison
    """
    print_json(json_schema(kind))


app = one_command(schema)
