"""Header of every document, and the reason that an unknown figure carries."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict

from servemark.machine.environment import Environment, collect

SCHEMA_VERSION: Literal[5] = 5
"""Raised when a key's meaning changes. Keys may be added without."""
KIND = "What the document is about."
REQUEST = (
    "What was asked for: the document that `servemark rerun` and `run --config` read (`servemark schema request`)."
)


class Header(TypedDict):
    """Header of every document. Each names its `kind` besides."""

    schema_version: Annotated[Literal[5], "Raised when the meaning of a key changes. Keys may be added without."]
    created: Annotated[str, "When the document was begun: UTC, ISO 8601."]
    command: Annotated[list[str], "The program that wrote it, and its arguments."]
    environment: Annotated[Environment, "The machine, its software and the state of the code."]


class CampaignHeader(Header):
    """Header of a document that grows with each turn of a campaign."""

    partial: Annotated[bool, "true: it was cut short; `--resume` goes on."]
    partial_reason: NotRequired[Annotated[str | None, "Why it is not whole. Null: it is."]]
    spent_s: NotRequired[Annotated[float, "How long its turns took (s)."]]


def command() -> list[str]:
    """This process's program and its arguments."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return [name, *sys.argv[1:]]


def opening() -> Header:
    """The header of a document that is begun now, on this machine, by this process's command."""
    return {
        "schema_version": SCHEMA_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command(),
        "environment": collect(),
    }


def campaign_opening() -> CampaignHeader:
    """The header of a campaign's document, before the first turn."""
    return {**opening(), "partial": True, "partial_reason": None, "spent_s": 0.0}


def figure_of(group: Mapping[str, object], key: str) -> float | None:
    """The figure of a key that is a variable, which a type checker cannot look up."""
    value = group[key]
    return value if isinstance(value, int | float) else None


def reason_of(group: Mapping[str, object], key: str) -> str | None:
    """Return the reason why a key of a group has no figure, None if no reason is given."""
    if key not in group:
        raise KeyError(key)
    reason = group.get(f"{key}_reason") or group.get("reason")
    return None if reason is None else str(reason)
