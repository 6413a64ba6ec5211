"""One flag of a load, and the kinds of things that a flag's value can name."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Names(StrEnum):
    """The kind of thing that a flag's value names. All but NOTHING is confirmed where a stranger's file sets it."""

    NOTHING = "nothing"
    PROGRAM = "program"
    """Code that runs."""
    PATH = "path"
    """A file or folder that is read or written."""
    HOST = "host"
    """An address that is asked, that data go to, or that listens."""


@dataclass(frozen=True)
class Flag:
    """One flag, `--request-rate` for the name `request_rate`. Its value is text, or on and off for a `switch`."""

    name: str
    names: Names
    help: str
    default: str = ""
    metavar: str | None = None
    choices: Sequence[str] = ()
    short: str = ""
    """The commands' short form; Locust has its own."""
    switch: bool = False
    repeatable: bool = False
    """It may come again; its values are joined by commas."""
    group: str = ""
    """`server`: which server is asked, and how; `arrivals`: how much load and when; `metrics`: who watches it;
    `decoding`: how answers that are scored become text."""
    locust_dest: str = ""
    """Another name for this option of Locust's own."""
    in_web_ui: bool = False
    of_locustfiles: bool = False
    """The commands have no such flag: they take an argument instead, or only give it to a run of theirs."""
    of_host: bool = False
    """A path that may differ on every host of a distributed run."""
    shown_default: str = ""
    plain: str = ""
    """Values that name nothing, as a regular expression, where others name a path."""

    @property
    def of_the_place(self) -> bool:
        """Whether it says where this run is kept or who made it, not what it is."""
        return self.of_locustfiles or self.name == "out"

    @property
    def option(self) -> str:
        """As the command line spells it."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def dest(self) -> str:
        """Its attribute of the parsed options."""
        return self.locust_dest or self.name

    @property
    def value(self) -> str | bool:
        """Its value where it is not given."""
        return False if self.switch else self.default


class Joined(argparse.Action):
    """A flag that may come again: its values with commas between."""

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
