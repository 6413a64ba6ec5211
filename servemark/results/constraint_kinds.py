"""The constraints by name. Each declares once what its failure is about; no other file keeps such a list."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Self


class About(StrEnum):
    """The part of a run that a failed constraint says something about."""

    RUN = "run"
    MACHINE = "machine"
    GENERATOR = "generator"
    SERVER = "server"
    ANSWERS = "answers"


class Kind(StrEnum):
    """A constraint's name, with `about` and `broken`.

    `broken`: the run broke off or its answers are wrong, and a lower load may not mend that.
    """

    about: About
    broken: bool

    COMPLETED = "completed", About.RUN, True
    OTHER_LOAD = "other_load", About.MACHINE
    ERROR_RATE = "error_rate", About.SERVER
    ACHIEVED_RATE = "achieved_rate", About.SERVER
    SCHEDULE_DELAY = "schedule_delay_p99", About.GENERATOR
    CLIENT_CPU = "client_cpu", About.GENERATOR
    GENERATOR_PAUSE = "generator_pause", About.GENERATOR
    ENOUGH_SAMPLES = "enough_samples", About.RUN
    STEADY_STATE = "steady_state", About.RUN
    SERVER_ALIVE = "server_alive", About.SERVER, True
    GENERATOR_ERRORS = "generator_errors", About.GENERATOR
    OUTPUT_AGREEMENT = "output_agreement", About.ANSWERS, True
    WORKERS = "workers", About.GENERATOR
    CLOCK_SYNC = "clock_sync", About.GENERATOR
    MAX_RATE = "max_rate", About.RUN
    LOADGEN = "loadgen", About.RUN, True

    def __new__(cls, name: str, about: About, broken: bool = False) -> Self:
        """Make the name, which is its value, and keep what it declares."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.about, made.broken = about, broken
        return made


_KINDS = {kind.value: kind for kind in Kind}
_OF_THE_SERVER = {About.SERVER, About.ANSWERS}


def kind_of(name: str) -> Kind | None:
    """Read a name of a saved verdict, where a mix writes "workload.constraint"; None: there is no such constraint."""
    return _KINDS.get(name.rpartition(".")[2])


def about(names: Iterable[str], *parts: About) -> list[str]:
    """Return the failed constraints that are about one of these parts."""
    return [name for name in names if (kind := kind_of(name)) and kind.about in parts]


def broken(names: Iterable[str]) -> list[str]:
    """Return the failed constraints that a lower load may not mend."""
    return [name for name in names if (kind := kind_of(name)) and kind.broken]


def overload(names: Iterable[str]) -> list[str]:
    """Return the failed constraints that a load too high for the server fails."""
    return [name for name in about(names, About.SERVER) if name not in broken([name])]


def of_the_server(names: Iterable[str]) -> list[str]:
    """Return the failed constraints that a worse server or model fails, which are evidence against it."""
    return about(names, *_OF_THE_SERVER)


def consequences(names: Iterable[str]) -> list[str]:
    """Return the failed constraints that may only follow from another: the run was too short, or unsteady."""
    return [name for name in about(names, About.RUN) if name not in broken([name])]
