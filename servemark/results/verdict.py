"""A verdict: constraints, each with its value, its limit and the flag that fixes it, and the objectives.

Modelled on MLPerf LoadGen's "Result is : VALID" summary. Each constraint declares once what its failure is about; no
other file keeps such a list.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Self

from servemark.errors import ExitCode
from servemark.results.objectives import MISSED, UNDECIDED, overall
from servemark.results.schema.details import Constraint, JudgedObjective, ObjectiveStatus, VerdictOfRun


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


def kind_of(name: str) -> Kind | None:
    """Read a name of a saved verdict, where a mix writes "workload.constraint"; None: there is no such constraint."""
    return _KINDS.get(name.rpartition(".")[2])


def about(names: Iterable[str], *parts: About, broken: bool | None = None) -> list[str]:
    """Return the failed constraints about one of these parts; with `broken` those alone that are so, or are not."""
    found = [(name, kind) for name in names if (kind := kind_of(name)) and kind.about in parts]
    return [name for name, kind in found if broken in {None, kind.broken}]


def broken(names: Iterable[str]) -> list[str]:
    """Return the failed constraints that a lower load may not mend."""
    return about(names, *About, broken=True)


def overload(names: Iterable[str]) -> list[str]:
    """Return the failed constraints that a load too high for the server fails."""
    return about(names, About.SERVER, broken=False)


def of_the_server(names: Iterable[str]) -> list[str]:
    """Return the failed constraints that a worse server or model fails, which are evidence against it."""
    return about(names, About.SERVER, About.ANSWERS)


def consequences(names: Iterable[str]) -> list[str]:
    """Return the failed constraints that may only follow from another: the run was too short, or unsteady."""
    return about(names, About.RUN, broken=False)


def constraint(name: str, ok: bool, value: float | None, limit: float | None, unit: str, remedy: str) -> Constraint:
    """Make one condition; `value` is None if there is no figure, and `remedy` says what to do if it is not met."""
    return {"name": str(name), "ok": ok, "value": value, "limit": limit, "unit": unit, "remedy": remedy}


def at_most(name: str, value: float, limit: float, unit: str, remedy: str) -> Constraint:
    """Make the condition that a value does not exceed its limit."""
    return constraint(name, value <= limit, value, limit, unit, remedy)


def conclude(
    constraints: Sequence[Constraint],
    objectives: Sequence[JudgedObjective] = (),
    skipped: Mapping[str, str] = MappingProxyType({}),
) -> VerdictOfRun:
    """Return the two answers of a run: its validity, and whether it met its objectives.

    `skipped` says why a constraint that a reader may miss is not there.
    """
    valid, objective = all(each["ok"] for each in constraints), overall(objectives)
    return {
        "valid": valid,
        "objective": objective,
        "exit_code": int(exit_code_of(valid, objective)),
        "constraints": [*constraints],
        "objectives": [*objectives],
        "skipped": {**skipped},
    }


def exit_code_of(valid: bool, objective: ObjectiveStatus | None) -> ExitCode:
    """Return the exit code of a run: 0 valid and met, 4 valid and missed, 2 invalid or undecided.

    INVALID wins, because a run that was not measured well shows no objective.
    """
    if not valid or objective == UNDECIDED:
        return ExitCode.INVALID
    return ExitCode.SLO_MISSED if objective == MISSED else ExitCode.VALID


def verdict_words(failed: Collection[str], objective: ObjectiveStatus | None) -> str:
    """Return both answers in a few words: "VALID, MET", "INVALID (steady_state)"."""
    valid = f"INVALID ({', '.join(sorted(failed))})" if failed else "VALID"
    return f"{valid}, {objective.upper()}" if objective else valid


def failed_constraints(verdict: VerdictOfRun) -> list[str]:
    """Return the names of the constraints that a run did not meet."""
    return [each["name"] for each in verdict["constraints"] if not each["ok"]]


def said(verdict: VerdictOfRun) -> str:
    """Return both answers of a run in a few words."""
    return verdict_words(failed_constraints(verdict), verdict["objective"])
