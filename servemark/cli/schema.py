"""`servemark schema`: the JSON Schema of what servemark writes."""

import msgspec

from servemark.documents.commands.show import REQUEST, Schema
from servemark.documents.request import RunRequest
from servemark.results.directory import print_json
from servemark.results.kinds import json_schema


def schema(options: Schema) -> None:
    """Print a schema."""
    print_json(msgspec.json.schema(RunRequest) if options.kind == REQUEST else json_schema(options.kind))
