"""The command line of a request: its flags, made from its fields; read into a request and written from one."""

import argparse
import functools
import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

import msgspec

from servemark.documents.fields import (
    ALL,
    LOADS,
    MAX_PORT,
    MEASURED,
    SERVED,
    Flag,
    Kind,
    Names,
    annotation_of,
    flag_of,
    name_of,
    names_of,
)
from servemark.documents.load import ClosedLoop, Load
from servemark.documents.request import GROUPS, RunRequest
from servemark.errors import OptionError
from servemark.quantities import PERCENT, RATES, SECONDS, text_of

Value = str | bool | Sequence[str] | None
"""A flag's value on a command line: several texts where it was given again, None or an empty text: nothing."""
KINDS: dict[str, type[Load]] = {name_of(kind, kind.__struct_fields__[0]): kind for kind in reversed(get_args(Load))}
"""Flag that chooses a kind of load, that of its first field -> the kind. Without one of them it is a closed loop."""
OWN = "own"
"""The group of a command's own options, which are no part of a request."""
COMMANDS: dict[str, Collection[str]] = {
    OWN: (),
    "": ALL,
    "server": SERVED,
    "load": LOADS,
    "inputs": ALL,
    "objectives": SERVED,
    "limits": MEASURED,
    "live": MEASURED,
}
"""Part of a request -> the commands that take its options, where an option does not say which."""
MOST_USED = "Most used"
FIRST = ("url", "engine", "precision", "request_rate", "concurrency", "duration", "batch_size", "slo")
"""Flags that most runs use, which the help shows before all others."""
SECTIONS = {
    OWN: "Options",
    "": "Model",
    "server": "Server",
    "load": "Load",
    "inputs": "Inputs",
    "objectives": "Objectives",
    "limits": "Limits",
    "live": "Live figures and files",
}
"""Part of a request -> the section of the help that has its options."""
_PASSED_OVER = {"duration", "request_distribution"}
"""Flags that kinds of load without them pass over: stages and traces have their own length and gaps."""
METAVARS = {"S": SECONDS, "R": RATES, "PERCENT": PERCENT}
_NAMED = {Names.PATH: "FILE", Names.HOST: "URL"}
Made = TypeVar("Made", bound=msgspec.Struct)


@dataclass(frozen=True)
class Option:
    """The option of one field."""

    name: str
    """Its name with underscores."""
    group: str
    """The request's part that has the field; empty: the request itself."""
    field: str
    flag: Flag
    kind: Kind
    value: Value
    """Its value where it is not given; None: it has to be."""
    names: Names
    """The kind of thing that its values name, where they are not `plain`."""
    plain: re.Pattern[str]

    @property
    def spelled(self) -> str:
        """The option as the command line has it; of an argument what the help calls it."""
        return self.metavar if self.flag.positional else f"--{self.name.replace('_', '-')}"

    @property
    def required(self) -> bool:
        """True if a command is not made without it; a kind of load is, but without its own option."""
        return self.group == OWN and self.value is None

    @property
    def commands(self) -> Collection[str]:
        """Those whose documents take it besides their own fields."""
        usual: Collection[str] = COMMANDS[self.group]
        return usual if self.flag.commands is None else self.flag.commands

    @property
    def section(self) -> str:
        """The section of the help that has it."""
        return MOST_USED if self.name in FIRST else SECTIONS[self.group]

    def asked(self, value: Any) -> bool:
        """Return True if this value from a foreign file needs a yes."""
        values = value if isinstance(value, list | tuple) else [value]
        return self.names is not Names.NOTHING and not all(self.plain.fullmatch(str(each)) for each in values)

    @property
    def dest(self) -> str:
        """Its attribute of Locust's parsed options."""
        return self.flag.locust_dest or self.name

    @property
    def switch(self) -> bool:
        """True if it is on or off, without a value."""
        return self.kind.base is bool

    @property
    def repeatable(self) -> bool:
        """True if it may be given again."""
        return self.flag.repeatable or self.kind.many

    @property
    def metavar(self) -> str:
        """The word that stands for its value."""
        by_unit = next((word for word, units in METAVARS.items() if units is self.flag.units), None)
        number = "PORT" if self.kind.bounds.get("le") == MAX_PORT else "N" if self.kind.base is int else ""
        named = _NAMED.get(self.names, "") if self.kind.base is str and not self.plain.pattern else ""
        return self.flag.metavar or by_unit or number or named or self.name.upper()

    def read(self, given: Any, what: str = "") -> Any:
        """Read a value; `what` is its name in errors. Raises OptionError."""
        if isinstance(given, list | tuple):
            return tuple(self.read(each) for each in given) if self.kind.many else self.read(",".join(given))
        if self.switch:
            return given
        try:
            str(given).encode()
        except UnicodeEncodeError:
            raise OptionError(
                f"{what or self.spelled} {given!r} is not UTF-8, as results are", fix="rename it"
            ) from None
        if self.flag.read:
            return self.flag.read(what or self.spelled, given)
        return self.kind.read(what or self.spelled, given, self.flag.units)

    def write(self, value: Any) -> Value:
        """Write a value as `read` takes it."""
        if isinstance(value, bool) or value is None:
            return value or False if self.switch else ""
        write = self.flag.write or (text_of if self.kind.base is float else str)
        return [write(each) for each in value] if self.kind.many else write(value)


@functools.cache
def options_in(kind: type[msgspec.Struct], group: str = OWN) -> Mapping[str, Option]:
    """Return the options of a document's fields by their names, those that it inherits last.

    `group` is the part of a request that the document is.
    """
    found = {}
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    own = [name for base in kind.__mro__ for name in inspect.get_annotations(base) if name in fields]
    for field in (fields[name] for name in dict.fromkeys(own)):
        flag = flag_of(kind, field.name)
        if flag is None:
            continue
        name = name_of(kind, field.name)
        default = None if (group == "load" and name in KINDS) or field.required else field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        annotation = annotation_of(kind, field.name)
        option = Option(name, group, field.name, flag, Kind.of(annotation), None, *names_of(annotation))
        required = field.required and group == OWN
        found[name] = option if required else replace(option, value=option.write(default))
    return found


def _all_options() -> dict[str, Option]:
    load = {name: option for kind in reversed(KINDS.values()) for name, option in options_in(kind, "load").items()}
    groups = [options_in(RunRequest, ""), options_in(GROUPS["server"], "server"), load]
    groups += [options_in(kind, group) for group, kind in GROUPS.items() if group != "server"]
    return {name: option for group in groups for name, option in group.items()}


OPTIONS = _all_options()
"""Every flag of a request by its name."""


def made(kind: type[Made], values: Mapping[str, Value], **more: Any) -> Made:
    """Make the document that these values of its options, by their names, ask for. Raises OptionError."""
    options = options_in(kind)
    return kind(**{options[name].field: options[name].read(value) for name, value in values.items() if value}, **more)


def request_of(values: Mapping[str, Value]) -> RunRequest:
    """Make the request that flags, by their names, ask for. Raises OptionError."""
    given = {name: OPTIONS[name].read(value) for name, value in values.items() if value}
    groups: dict[str, dict[str, Any]] = {group: {} for group in ("", *GROUPS)}
    for name, value in given.items():
        if OPTIONS[name].group != "load":
            groups[OPTIONS[name].group][OPTIONS[name].field] = value
    parts: dict[str, Any] = {group: kind(**groups[group]) for group, kind in GROUPS.items()}
    return RunRequest(load=_load(given, values), **parts, **groups[""])


def _load(given: Mapping[str, Any], values: Mapping[str, Value]) -> Load:
    """Choose the kind of load, and make it. Raises OptionError."""
    named = [name for name in reversed(KINDS) if name in given]
    if len(named) > 1:
        raise OptionError(
            f"{' and '.join(OPTIONS[n].spelled for n in named)} exclude each other", fix="give one of them"
        )
    kind = KINDS[named[0]] if named else ClosedLoop
    own = options_in(kind, "load")
    for name in given:
        option = OPTIONS[name]
        if option.group == "load" and name not in own and name not in _PASSED_OVER and values[name] != option.value:
            owners = [flag for flag, each in KINDS.items() if name in options_in(each, "load")]
            fix = f"add {' or '.join(OPTIONS[n].spelled for n in owners)}; or leave it out"
            raise OptionError(f"{option.spelled} is not for this load", fix=fix)
    return kind(**{own[name].field: value for name, value in given.items() if name in own})


def options_of(request: RunRequest) -> dict[str, Value]:
    """Return the value of each flag that makes this request, by name; those at their defaults too."""
    found: dict[str, Value] = {}
    own = options_in(type(request.load), "load")
    for name, option in OPTIONS.items():
        if option.group == "load":
            found[name] = own[name].write(getattr(request.load, own[name].field)) if name in own else ""
        else:
            part = getattr(request, option.group) if option.group else request
            found[name] = option.write(getattr(part, option.field))
    return found


def given_options(request: RunRequest) -> dict[str, Value]:
    """Return the flags that make this request, without those at their defaults."""
    options = options_of(request).items()
    return {name: value for name, value in options if value and value != OPTIONS[name].value}


class _Joined(argparse.Action):
    """An option that may be given again: its values with commas between."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - as argparse calls it
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Add a value to those before."""
        before = getattr(namespace, self.dest, "")
        setattr(namespace, self.dest, f"{before},{values}" if before else values)


def locust_arguments(models: Sequence[str]) -> Iterator[tuple[Option, dict[str, Any]]]:
    """Return Locust's options with the settings of its parser; the first model is the default, none stands for any.

    Locust has some of them under another name, and shows options as fields of its web UI unless told otherwise.
    """
    for option in OPTIONS.values():
        flag = option.flag
        if not flag.of_locust:
            continue
        settings: dict[str, Any] = {
            "dest": option.dest,
            "help": flag.help,
            "default": None if option.kind.many else argparse.SUPPRESS if flag.locust_dest else option.value,
        }
        if option.name == "model":
            named = f"{', '.join(models)} (or <name>_tiny)" if models else "the name of any model on the server"
            settings |= {"default": models[0] if models else "", "help": f"Workload: {named}."}
        if not flag.in_web_ui:
            settings["include_in_web_ui"] = False
        if option.switch:
            settings["action"] = "store_true"
        elif option.kind.choices:
            settings["choices"] = list(option.kind.choices)
        else:
            if option.repeatable:
                settings["action"] = "append" if option.kind.many else _Joined
            # Locust itself computes with its number of users.
            settings |= {"metavar": option.metavar, "type": int if flag.locust_dest == "num_users" else str}
        yield option, settings


def from_locust(parsed: argparse.Namespace) -> RunRequest:
    """Make a request of Locust's parsed options; its web UI gives text for what was None. Raises OptionError."""
    values = {name: getattr(parsed, option.dest, "") for name, option in OPTIONS.items() if option.flag.of_locust}
    if any(values.get(name) for name in KINDS if name != "concurrency"):
        values["concurrency"] = ""  # Locust always has a number of users
    return request_of(
        {
            name: str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
            for name, value in values.items()
        }
    )


def foreign(chosen: str) -> set[str]:
    """Return the flags that a kind of load, by the flag that chooses it, does not have."""
    return {name for name, option in OPTIONS.items() if option.group == "load"} - {*options_in(KINDS[chosen], "load")}
