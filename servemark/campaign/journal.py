"""The journal of a campaign: JSON lines, of what was asked for, then of each turn.

A folder to go on with may be damaged, or somebody else's: nothing in it is trusted.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_type_hints, is_typeddict

import msgspec

from servemark import files
from servemark.errors import OptionError, ResultError
from servemark.results.directory import JOURNAL

OTHERWISE = frozenset({"created", "command", "environment", "busy_share"})
"""Keys of what a campaign was asked for that may differ when it goes on; of the environment only the CPU may not."""
ANEW = "start a new one, without --resume"
T = TypeVar("T")


class Line(msgspec.Struct):
    """A turn as the journal has it."""

    turn: str
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    outcome: Any


class Journal:
    """The turns of a folder by name, each of them on disk when it has been added."""

    def __init__(self, folder: Path, asked: Mapping[str, Any], *, resume: bool) -> None:
        """Begin a journal, or go on with that of the folder.

        Raises OptionError if it was `asked` for something else, ResultError if it is damaged or cannot be written.
        """
        self._path = folder / JOURNAL
        self.turns = _past(self._path, asked) if resume else {}
        if not resume:
            self._append(msgspec.to_builtins(asked))

    def add(self, name: str, seconds: float, outcome: object) -> None:
        """Add a turn. Raises ResultError on a full disk."""
        line = Line(name, round(seconds, 6), msgspec.to_builtins(outcome))
        self._append(msgspec.to_builtins(line))
        self.turns[name] = line

    def outcome(self, name: str, kind: type[T]) -> T:
        """Return the outcome of a turn as its kind. Raises ResultError if it is none."""
        outcome = self.turns[name].outcome
        try:
            found = msgspec.convert(outcome, kind)
        except ValueError as error:
            raise ResultError(f"{self._path} is damaged: {error}", fix=ANEW) from error
        return cast(T, _with_reasons(found, outcome, kind))

    def _append(self, line: Mapping[str, Any]) -> None:
        """Append a line by one synced write, so that it is there whole or not at all."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(file, json.dumps(line, allow_nan=False).encode() + b"\n")
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise ResultError(
                f"{self._path} cannot be written: {error.strerror}", fix="give a directory with room: --out DIR"
            ) from error


def _with_reasons(found: Any, outcome: Any, kind: Any) -> Any:
    """Give groups of figures, itself or in its fields, the keys that their types do not name: the reasons."""
    if is_typeddict(kind):
        return outcome
    if not is_dataclass(kind):
        return found
    groups = [name for name, hint in get_type_hints(kind).items() if is_typeddict(hint)]
    return replace(found, **{name: outcome[name] for name in groups})


def asked_of(folder: Path) -> dict[str, Any]:
    """Read what a campaign was asked for. Raises ResultError."""
    return _read(folder / JOURNAL)[0]


def _past(path: Path, asked: Mapping[str, Any]) -> dict[str, Line]:
    """Read the turns of a journal. Raises OptionError if it was asked for something else, ResultError."""
    first, lines = _read(path, mend=True)
    now = msgspec.json.decode(msgspec.json.encode(asked))
    before, here = ({**_cpu(each), **{key: each[key] for key in each.keys() - OTHERWISE}} for each in (first, now))
    changed = [
        f"{key} was {before.get(key)!s:.80} and is {here.get(key)!s:.80}"
        for key in sorted({*before, *here})
        if before.get(key) != here.get(key)
    ]
    if changed:
        raise OptionError(
            f"{path.parent} was another campaign: {', '.join(changed)}", fix=f"use the same options, or {ANEW}"
        )
    return {line.turn: line for line in lines}


def _cpu(asked: Mapping[str, Any]) -> dict[str, Any]:
    environment = asked.get("environment")
    return {"the CPU": environment.get("cpu")} if isinstance(environment, dict) else {}


def _read(path: Path, *, mend: bool = False) -> tuple[dict[str, Any], list[Line]]:
    """Read what was asked for, and the turns, without a line that a loss of power cut; `mend` cuts it off.

    Raises ResultError.
    """
    try:
        data = files.content(path, files.DOCUMENT_BYTES)
        if mend and not data.endswith(b"\n"):
            os.truncate(path, data.rfind(b"\n") + 1)
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}", fix="name a result directory") from error
    try:
        first, *lines = data.split(b"\n")[:-1]
        asked = msgspec.json.decode(first, type=dict[str, Any])
        return asked, [msgspec.json.decode(line, type=Line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{path} is not the journal of a campaign: {error}", fix=ANEW) from error
