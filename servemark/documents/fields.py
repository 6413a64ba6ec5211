"""Declares a field of a request once: its unit, its bounds, its help, and the flag that sets it.

A field's annotation holds what these functions return. msgspec checks documents by it and makes the JSON Schema;
`servemark.documents.flags` makes the command lines.
"""

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta, Struct

from servemark import quantities
from servemark.errors import OptionError
from servemark.quantities import INT64, PLAIN, text_of


class Names(StrEnum):
    """The kind of thing that a text names. All but NOTHING is confirmed where a stranger's file sets it."""

    NOTHING = "nothing"
    PROGRAM = "program"
    """Code that runs."""
    PATH = "path"
    """A file or folder that is read or written."""
    HOST = "host"
    """An address that is asked, that data go to, or that listens."""


_EMPTY = re.compile("")
Word = Annotated[str, Names.NOTHING]
Program = Annotated[str, Names.PROGRAM]
File = Annotated[str, Names.PATH]
Host = Annotated[str, Names.HOST]


def names_of(kind: Any) -> tuple[Names, re.Pattern[str]]:
    """Return the kind of thing that values of a type name, and the values that name nothing all the same.

    A text of which the type does not say it counts as the name of a program.
    """
    said = getattr(kind, "__metadata__", ())
    if named := next((each for each in said if isinstance(each, Names)), None):
        return named, next((each for each in said if isinstance(each, re.Pattern)), _EMPTY)
    if kind is str:
        return Names.PROGRAM, _EMPTY
    parts = [kind.__origin__] if said else [] if get_origin(kind) is Literal else get_args(kind)
    return next((each for each in map(names_of, parts) if each[0] is not Names.NOTHING), (Names.NOTHING, _EMPTY))


RUN, COMPARE, TUNE, MLPERF, QUALITY = "run", "compare", "tune", "mlperf", "quality"
LOADS = frozenset({RUN, COMPARE})
"""Commands that let the user choose the load."""
MEASURED = LOADS | {TUNE}
"""Commands whose own generator measures the load."""
SERVED = LOADS | {MLPERF, QUALITY}
"""Commands that may ask a server that runs already."""
ALL = SERVED | {TUNE}
IMPORT = "import"
MODELS = "models"
"""Of every command that takes a workload: where the user's own models are."""

Count = Annotated[int, Meta(ge=1, le=INT64)]
"""A number of things, at least one."""
MAX_SEED = (1 << 62) - 1
"""The runs of a series count seeds on from the first, and LoadGen takes three of 64 bits that are made of one."""
Read = Callable[[str, str], Any]
"""Reads a value: what it is called in errors, and its text. Raises OptionError."""


@dataclass(frozen=True)
class Flag:
    """The flag of a field. Its value is text, or on and off for a `switch`; an empty text is not given."""

    help: str
    read: Read
    write: Callable[[Any], str] = str
    name: str = ""
    """The name with underscores, where it is not the field's without its unit."""
    metavar: str | None = None
    choices: Sequence[str] = ()
    short: str = ""
    """The commands' short form, or their other name; Locust has its own."""
    positional: bool = False
    """An argument, which goes by its place."""
    completion: str = ""
    """The names that a shell completes its beginning to: those of workloads, or of suites of kernels."""
    hidden: bool = False
    """The help does not list it."""
    switch: bool = False
    repeatable: bool = False
    """It may be given again; its values are joined by commas."""
    many: bool = False
    """Repeatable, and each value stays a text of its own."""
    commands: Collection[str] = ALL
    """Those whose documents take it besides their own fields, if it is a field of a request."""
    locust_dest: str = ""
    """Another name for this option of Locust's own."""
    of_locust: bool = True
    """Locustfiles take it."""
    in_web_ui: bool = False
    of_host: bool = False
    """A path that may differ on every host of a distributed run."""
    shown_default: str = ""
    """The default of an empty value, as the help shows it."""


def flag_of(kind: type[Struct], field: str) -> Flag | None:
    """Return the flag that a field declares."""
    for each in getattr(annotation_of(kind, field), "__metadata__", ()):
        if isinstance(each, Meta) and each.extra is not None:
            found: Flag = each.extra["flag"]
            return found
    return None


def annotation_of(kind: type[Struct], field: str) -> Any:
    """Return the annotation of a field, which may be inherited."""
    return next(found[field] for found in map(inspect.get_annotations, kind.__mro__) if field in found)


def _meta(flag: Flag, **bounds: float | None) -> Meta:
    given: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    return Meta(description=flag.help, extra={"flag": flag}, **given)


def text(help_: str, *, read: Read | None = None, **more: Any) -> Meta:
    """Declare a field that is a text, or that is read from one."""
    return _meta(Flag(help_, read or (lambda _, given: given), **more))


def argument(help_: str, metavar: str, **more: Any) -> Meta:
    """Declare a field that is an argument of a command, not an option; `many`: all that are left."""
    return text(help_, metavar=metavar, positional=True, repeatable=more.get("many", False), **more)


def folder(help_: str, below: Path, **more: Any) -> Meta:
    """Declare a field that is a folder; an empty text stands for this one below SERVEMARK_HOME."""
    return text(help_, **{"metavar": "DIR", "shown_default": str(below), **more})


def choice(help_: str, choices: Sequence[str], **more: Any) -> Meta:
    """Declare a field that is one of a few words."""

    def read(what: str, given: str) -> str:
        quantities.one_of(what, given, choices)
        return next(each for each in choices if each == given)

    return _meta(Flag(help_, read, choices=tuple(choices), **more))


def switch(help_: str, **more: Any) -> Meta:
    """Declare a field that is on or off."""
    return _meta(Flag(help_, lambda _, given: given, switch=True, **more))


def whole(help_: str, *, least: int = 1, most: int = INT64, optional: bool = False, **more: Any) -> Meta:
    """Declare a field that is a whole number. The type of an `optional` one has the bounds itself.

    msgspec has no bound above INT64: the group of a field that may lie there checks it.
    """

    def read(what: str, given: str) -> int:
        return quantities.whole(what, given, least, most)

    bounds = {} if optional else {"ge": least, "le": most if most <= INT64 else None}
    return _meta(Flag(help_, read, **{"metavar": "N", **more}), **bounds)


def number(
    help_: str,
    *,
    units: Mapping[str, str] = PLAIN,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    optional: bool = False,
    read: Read | None = None,
    **more: Any,
) -> Meta:
    """Declare a field that is a number with a unit. The type of an `optional` one has the bounds itself."""

    def plain(what: str, given: str) -> float:
        if above is not None:
            found = quantities.above(what, given, above, units)
        elif least is not None:
            found = quantities.at_least(what, given, least, units)
        else:
            found = quantities.number(what, given, units)
        if most is not None and found > most:
            raise OptionError(f"{what} {found:g} is above {most:g}", fix=f"lower {what}")
        return found

    more = {"write": text_of, **more}
    bounds = {} if optional else {"gt": above, "ge": least, "le": most}
    return _meta(Flag(help_, read or plain, **more), **bounds)
