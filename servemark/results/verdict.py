"""A verdict: constraints, each with its value, its limit and the flag that fixes it, and the objectives.

Modelled on MLPerf LoadGen's "Result is : VALID" summary.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from servemark.errors import ExitCode
from servemark.results.objectives import MISSED, UNDECIDED, overall
from servemark.results.schema import verdict as documents


def constraint(
    name: str, ok: bool, value: float | None, limit: float | None, unit: str, remedy: str
) -> documents.Constraint:
    """Make one condition; `value` is None if there is no figure, and `remedy` says what to do if it is not met."""
    return {"name": str(name), "ok": ok, "value": value, "limit": limit, "unit": unit, "remedy": remedy}


@dataclass(frozen=True)
class Verdict:
    """The two answers of a run: its validity, and whether it met its objectives.

    `skipped` says why a constraint that a reader may miss is not there.
    """

    constraints: Sequence[documents.Constraint]
    objectives: Sequence[documents.JudgedObjective] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """True if every constraint holds."""
        return all(each["ok"] for each in self.constraints)

    @property
    def exit_code(self) -> ExitCode:
        """0 valid and met; 4 valid and missed; 2 invalid, whatever the objectives, or undecided."""
        return exit_code_of(self.valid, overall(self.objectives))

    def to_dict(self) -> documents.VerdictOfRun:
        """Convert to the form of result.json."""
        return {
            "valid": self.valid,
            "objective": overall(self.objectives),
            "exit_code": int(self.exit_code),
            "constraints": list(self.constraints),
            "objectives": list(self.objectives),
            "skipped": dict(self.skipped),
        }


def exit_code_of(valid: bool, objective: documents.ObjectiveStatus | None) -> ExitCode:
    """Return the exit code of a run. INVALID wins, because a run that was not measured well shows no objective."""
    if not valid or objective == UNDECIDED:
        return ExitCode.INVALID
    return ExitCode.SLO_MISSED if objective == MISSED else ExitCode.VALID


def verdict_words(failed: Collection[str], objective: documents.ObjectiveStatus | None) -> str:
    """Return both answers in a few words: "VALID, MET", "INVALID (steady_state)"."""
    valid = f"INVALID ({', '.join(sorted(failed))})" if failed else "VALID"
    return f"{valid}, {objective.upper()}" if objective else valid


def failed_constraints(verdict: documents.VerdictOfRun) -> list[str]:
    """Return the names of the constraints that a run did not meet."""
    return [each["name"] for each in verdict["constraints"] if not each["ok"]]


def said(verdict: documents.VerdictOfRun) -> str:
    """Return both answers of a run in a few words."""
    return verdict_words(failed_constraints(verdict), verdict["objective"])
