"""Declares a field once: its type says which values it has and what they name, an option how they are given.

A field's annotation holds both. msgspec checks documents by it and makes the JSON Schema; `servemark.documents.flags`
and `servemark.cli` make the command lines.
"""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct

from servemark import quantities
from servemark.quantities import INT64, PLAIN


class Names(StrEnum):
    """The kind of thing that a text names. All but NOTHING is confirmed where a stranger's file sets it."""

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
IMPORT = "import"
MODELS = "models"
"""Of every command that takes a workload: where the user's own models are."""

_EMPTY = re.compile("")
MAX_PORT = 65_535
Word = Annotated[str, Names.NOTHING]
Program = Annotated[str, Names.PROGRAM]
File = Annotated[str, Names.PATH]
Host = Annotated[str, Names.HOST]
Count = Annotated[int, Meta(ge=1, le=INT64)]
"""A number of things, at least one."""
Natural = Annotated[int, Meta(ge=0, le=INT64)]
Port = Annotated[int, Meta(ge=0, le=MAX_PORT)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
MAX_SEED = (1 << 62) - 1
"""The runs of a series count seeds on from the first, and LoadGen takes three of 64 bits that are made of one."""
Read = Callable[[str, str], Any]
"""Reads a value: what it is called in errors, and its text. Raises OptionError."""


@dataclass(frozen=True)
class Flag:
    """The option of a field, besides what the field's type says of it. Its value is text; an empty one is not given."""

    help: str
    units: Mapping[str, str] = field(default_factory=lambda: PLAIN)
    """Of a number: each suffix, and its factor."""
    read: Read | None = None
    """Another way to read it than that of its type."""
    write: Callable[[Any], str] | None = None
    name: str = ""
    """The name with underscores, where it is not the field's without its unit."""
    metavar: str | None = None
    short: str = ""
    """The commands' short form, or their other name; Locust has its own."""
    positional: bool = False
    """An argument, which goes by its place."""
    completion: str = ""
    """The names that a shell completes its beginning to: those of workloads, or of suites of kernels."""
    hidden: bool = False
    """The help does not list it."""
    repeatable: bool = False
    """It may be given again; its values are joined by commas."""
    commands: Collection[str] | None = None
    """Those whose documents take it besides their own fields; not said: those that its group of a request says."""
    locust_dest: str = ""
    """Another name for this option of Locust's own."""
    of_locust: bool = True
    """Locustfiles take it."""
    in_web_ui: bool = False
    of_host: bool = False
    """A path that may differ on every host of a distributed run."""
    shown_default: str = ""
    """The default of an empty value, as the help shows it."""


@dataclass(frozen=True)
class Kind:
    """A field's type as an option reads it."""

    base: Any
    """bool, int, float, str or Path; another one is read by the option itself."""
    many: bool = False
    """Each value that is given stays one of its own."""
    choices: tuple[str, ...] = ()
    bounds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, annotation: Any) -> "Kind":
        """Read an annotation; of a union the first part counts."""
        meta = [each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, Meta)]
        plain = annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation
        origin, parts = get_origin(plain), get_args(plain)
        if origin is Literal:
            return cls(str, choices=parts)
        if origin in {Union, UnionType}:
            return cls.of(parts[0])
        if origin is tuple and parts[1:] == (...,):
            part = cls.of(parts[0])
            return replace(part, many=part.base in {str, Path})
        if isinstance(plain, type) and issubclass(plain, StrEnum):
            return cls(plain, choices=tuple(plain))
        bounds = [(name, getattr(each, name)) for each in meta for name in ("gt", "ge", "le")]
        return cls(plain, bounds={name: bound for name, bound in bounds if bound is not None})

    def read(self, what: str, given: str, units: Mapping[str, str]) -> Any:
        """Read a value. Raises OptionError."""
        if self.choices:
            quantities.one_of(what, given, self.choices)
            return next(each for each in self.choices if each == given)
        if self.base is int:
            return quantities.whole(what, given, int(self.bounds["ge"]), int(self.bounds["le"]))
        if self.base is float:
            return quantities.number(what, given, units, **self.bounds)
        return Path(given) if self.base is Path else given


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


def flag_of(kind: type[Struct], name: str) -> Flag | None:
    """Return the flag that a field declares."""
    for each in getattr(annotation_of(kind, name), "__metadata__", ()):
        if isinstance(each, Meta) and each.extra is not None:
            found: Flag = each.extra["flag"]
            return found
    return None


def name_of(kind: type[Struct], name: str) -> str:
    """Return the name of a field's option, with underscores: its own, or the field's without its unit."""
    flag = flag_of(kind, name)
    return (flag and flag.name) or re.sub("_(s|hz)$", "", name)


def given_in(part: Struct) -> set[str]:
    """Return the fields of a group that are not at their defaults."""
    usual = type(part)()
    return {name for name in part.__struct_fields__ if getattr(part, name) != getattr(usual, name)}


def annotation_of(kind: type[Struct], name: str) -> Any:
    """Return the annotation of a field, which may be inherited."""
    return next(found[name] for found in map(inspect.get_annotations, kind.__mro__) if name in found)


def option(help_: str, **more: Any) -> Meta:
    """Declare an option of a field; its type says which values it has."""
    return Meta(description=help_, extra={"flag": Flag(help_, **more)})


def argument(help_: str, metavar: str, **more: Any) -> Meta:
    """Declare a field that is an argument of a command, which takes all that are left where the field has many."""
    return option(help_, metavar=metavar, positional=True, **more)


def folder(help_: str, below: Path, **more: Any) -> Meta:
    """Declare a field that is a folder; an empty text stands for this one below SERVEMARK_HOME."""
    return option(help_, metavar="DIR", shown_default=str(below), **more)
