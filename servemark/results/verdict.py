"""A verdict: one constraint after another, each with its value, its limit and the flag that fixes it.

Modelled on MLPerf LoadGen's "Result is : VALID" summary.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from servemark.errors import ExitCode
from servemark.results.schema import run


@dataclass(frozen=True)
class Constraint:
    """One condition; `value` is None where there is no figure, and `remedy` says what to do where it is not met."""

    name: str
    ok: bool
    value: float | None
    limit: float | None
    unit: str
    remedy: str

    @classmethod
    def of_dict(cls, document: run.Constraint) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**document)

    def to_dict(self) -> run.Constraint:
        """As result.json holds it."""
        return {
            "name": self.name,
            "ok": self.ok,
            "value": self.value,
            "limit": self.limit,
            "unit": self.unit,
            "remedy": self.remedy,
        }


@dataclass(frozen=True)
class Verdict:
    """Whether the run may be quoted; `not_judged` says why a constraint that a reader may miss is not there."""

    constraints: list[Constraint]
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether every constraint holds, the latency objective included."""
        return all(constraint.ok for constraint in self.constraints)

    @property
    def exit_code(self) -> ExitCode:
        """0 valid, 4 where only the latency objective was missed, 2 otherwise."""
        # In a mix the workload's name stands before the constraint's.
        failed = {constraint.name.rpartition(".")[2] for constraint in self.constraints if not constraint.ok}
        if not failed:
            return ExitCode.VALID
        return ExitCode.SLO_MISSED if failed == {"slo"} else ExitCode.INVALID

    def to_dict(self) -> run.VerdictOfRun:
        """As result.json holds it."""
        return {
            "valid": self.valid,
            "exit_code": int(self.exit_code),
            "constraints": [constraint.to_dict() for constraint in self.constraints],
            "not_judged": dict(self.not_judged),
        }


def failed_constraints(verdict: run.VerdictOfRun) -> list[str]:
    """The names of the constraints that a run did not meet."""
    return [constraint["name"] for constraint in verdict["constraints"] if not constraint["ok"]]
