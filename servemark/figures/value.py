"""Values of figures, with their units, their intervals and the reasons why something of them is not known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NotRequired, TypedDict


class FigureValue(TypedDict):
    """One figure, as a document holds it."""

    value: Annotated[float | None, "Its value. Null: not known."]
    unit: Annotated[str, "Its unit."]
    ci95: NotRequired[
        Annotated[
            list[float | None], "Ends of its 95 % interval. The upper one is null where it lies among failed requests."
        ]
    ]
    n: NotRequired[Annotated[int, "Samples that it is of: for a percentile those that failed too."]]
    reason: NotRequired[Annotated[str, "Why its value, or its interval, is not known."]]


Figures = Mapping[str, FigureValue]
"""Tag -> value."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its name, how a column's name ends that has it, and the base unit of Prometheus with the factor to it."""

    name: str
    column: str
    base: str
    factor: float = 1.0


MS = Unit("ms", "_ms", "_seconds", 1e-3)
S = Unit("s", "_s", "_seconds")
US = Unit("us", "_us", "_seconds", 1e-6)
SHARE = Unit("share", "", "_ratio")
REQUESTS_PER_S = Unit("requests/s", "_per_s", "_per_second")
INFERENCES_PER_S = Unit("inferences/s", "_per_s", "_per_second")
ANSWERS_PER_S = Unit("answers/s", "_per_s", "_per_second")
SEQUENCES_PER_S = Unit("sequences/s", "_per_s", "_per_second")
JOULES = Unit("J", "_j", "_joules")
WATTS = Unit("W", "_w", "_watts")
BYTES = Unit("bytes", "_bytes", "_bytes")
CORES = Unit("cores", "_cores", "_cores")
COUNT = Unit("", "", "")


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a figure. `reason` says why `value`, or its interval, is not known."""

    value: float | None
    ci95: tuple[float | None, float | None] | None = None
    n: int | None = None
    reason: str | None = None

    @classmethod
    def unknown(cls, reason: str, n: int | None = None) -> "Value":
        """Return a value that is not known."""
        return cls(None, n=n, reason=reason)

    @classmethod
    def of(cls, value: float | None, reason: str) -> "Value":
        """Return a value, or an unknown one for a reason."""
        return cls.unknown(reason) if value is None else cls(value)

    @classmethod
    def ratio(cls, total: float, count: int, reason: str) -> "Value":
        """Return a total divided by the number of its samples; unknown, for a reason, where there are none."""
        return cls(total / count, n=count) if count > 0 else cls.unknown(reason)

    def to_dict(self, unit: Unit) -> FigureValue:
        """As a document holds it."""
        found: FigureValue = {"value": self.value, "unit": unit.name}
        if self.ci95 is not None:
            found["ci95"] = list(self.ci95)
        if self.n is not None:
            found["n"] = self.n
        if self.reason is not None:
            found["reason"] = self.reason
        return found
