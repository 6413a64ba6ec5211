"""Declares a field of a request once: its unit, its bounds, its help, and the flag that sets it.

A field's annotation holds what these functions return. msgspec checks documents by it and makes the JSON Schema;
`servemark.documents.flags` makes the command lines.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from servemark import quantities
from servemark.errors import OptionError
from servemark.quantities import INT64, PLAIN, text_of


class Names(StrEnum):
    """The kind of thing that a flag's value names. All but NOTHING is confirmed where a stranger's file sets it."""

    NOTHING = "nothing"
    PROGRAM = "program"
    """Code that runs."""
    PATH = "path"
    """A file or folder that is read or written."""
    HOST = "host"
    """An address that is asked, that data go to, or that listens."""


RUN, COMPARE, TUNE, MLPERF, QUALITY = "run", "compare", "tune", "mlperf", "quality"
LOADS = frozenset({RUN, COMPARE})
"""Commands that let the user choose the load."""
MEASURED = LOADS | {TUNE}
"""Commands whose own generator measures the load."""
SERVED = LOADS | {MLPERF, QUALITY}
"""Commands that may ask a server that runs already."""
ALL = SERVED | {TUNE}

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
    names: Names = Names.NOTHING
    plain: str = ""
    """Values that name nothing, as a regular expression, where others name a path."""
    metavar: str | None = None
    choices: Sequence[str] = ()
    short: str = ""
    """The commands' short form; Locust has its own."""
    switch: bool = False
    repeatable: bool = False
    """It may be given again; its values are joined by commas."""
    many: bool = False
    """Repeatable, and each value stays a text of its own."""
    commands: Collection[str] = ALL
    """The commands that take it besides their own parameters."""
    locust_dest: str = ""
    """Another name for this option of Locust's own."""
    of_locust: bool = True
    """Locustfiles take it."""
    in_web_ui: bool = False
    of_host: bool = False
    """A path that may differ on every host of a distributed run."""
    default_below: str = ""
    """The folder below SERVEMARK_HOME that stands for an empty value."""
    shown_default: str = ""
    """Another default of an empty value, as the help shows it."""


def flag_of(kind: type[Struct], field: str) -> Flag | None:
    """Return the flag that a field declares."""
    for each in getattr(kind.__annotations__[field], "__metadata__", ()):
        if isinstance(each, Meta) and each.extra is not None:
            found: Flag = each.extra["flag"]
            return found
    return None


def _meta(flag: Flag, **bounds: float | None) -> Meta:
    given: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    return Meta(description=flag.help, extra={"flag": flag}, **given)


def text(help_: str, *, read: Read | None = None, **more: Any) -> Meta:
    """Declare a field that is a text, or that is read from one."""
    return _meta(Flag(help_, read or (lambda _, given: given), **more))


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
