"""A fault: what is done to a run, what is to become of it, and what was seen."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from servemark.figures.registry import count_of
from servemark.results.verdict import Kind, failed_constraints

if TYPE_CHECKING:
    from tests.faults.generator import Rig

State = Literal["whole", "partial", "none"]
"""Of a run's result: the whole run's, what was measured until it was cut short, or not there."""
NEVER_SENT = ("timeout", "connection_refused", "too_many_open_files", "interrupted")
"""Kinds of requests that may have failed before anything of them was sent."""
NOISE = {Kind.OTHER_LOAD, Kind.STEADY_STATE, Kind.ENOUGH_SAMPLES, Kind.SCHEDULE_DELAY, Kind.CLIENT_CPU}
NOISE |= {Kind.GENERATOR_PAUSE, Kind.CLOCK_SYNC}
"""Constraints that other work on the machine may fail. They stand for nothing: a row names the one that must fail."""
SHARES = {Kind.ERROR_RATE, Kind.ACHIEVED_RATE}
"""Those that any failed request may fail."""
INVALID, BAD_INPUT, INTERRUPTED = 2, 3, 130


@dataclass(frozen=True)
class Expected:
    """Outcome that a run should have."""

    codes: tuple[int, ...] = (INVALID,)
    kinds: tuple[str, ...] | None = ()
    """Failures of each of these kinds and of no others; None where the fault says more about them itself."""
    also: tuple[str, ...] = ()
    """Kinds that may be there too."""
    fails: str | None = None
    """The constraint that must fail; None: that of the failures, or of a run that was cut short."""
    may_fail: tuple[str, ...] = ()
    """Constraints that may fail because of the fault as well."""
    result: State = "whole"
    answered: bool = True
    """True if other requests are answered as well."""
    figures: bool = True
    """True if a result holds the measured figures."""
    says: str = ""
    """A pattern of what it prints."""
    within_s: float = 90.0
    """From its start to its end; a run that waits for what never comes would take longer."""
    growth_mib: float = 30.0
    """Resident memory beyond that of a run without a fault."""

    @property
    def constraint(self) -> str:
        """The constraint that makes the run INVALID; "": none has to."""
        if self.fails is not None or not self.figures:
            return self.fails or ""
        if self.result == "partial":
            return Kind.COMPLETED
        return Kind.ERROR_RATE if self.codes == (INVALID,) and self.result == "whole" else ""

    def words(self) -> str:
        """For the table."""
        by = f" by `{self.constraint}`" if self.constraint else ""
        parts = [f"exit {' or '.join(map(str, self.codes))}{by}"]
        if self.kinds:
            parts.append(" and ".join(f"`{kind}`" for kind in self.kinds))
        elif self.kinds == () and self.result != "none":
            parts.append("no failures")
        if self.says:
            parts.append("says why")
        parts.append({"whole": "result whole", "partial": "result partial", "none": "no result"}[self.result])
        return f"{', '.join(parts)}; + {self.growth_mib:g} MiB, {self.within_s:g} s at most"


@dataclass
class Seen:
    """Outcome that a run had."""

    code: int
    wall_s: float
    growth_mib: float
    output: str
    result: Mapping[str, Any] | None
    left: list[str]
    received: int | None = None
    """Requests that came to the server, by its own count; None where it did not see all of them."""
    troubles: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> Counter[str]:
        """Count the failed requests by kind."""
        return Counter(self.result["details"]["errors"]["by_kind"]) if self.measured and self.result else Counter()

    @property
    def measured(self) -> bool:
        """True if the result has figures."""
        return self.result is not None and bool(self.result["figures"])

    @property
    def good(self) -> int:
        """Number of answered requests."""
        return count_of(self.result, "requests.answered") if self.measured and self.result else 0

    @property
    def failed(self) -> list[str]:
        """The constraints of the verdict that do not hold."""
        return failed_constraints(self.result["verdict"]) if self.result and self.result["verdict"] else []

    @property
    def accounted(self) -> int:
        """Number of requests that the result mentions."""
        outside = count_of(self.result, "generator.requests_outside_interval") if self.measured and self.result else 0
        return self.good + self.kinds.total() + outside

    @property
    def least(self) -> int:
        """Minimum number of requests at the server: those that may never have been sent are left out."""
        return self.accounted - sum(self.kinds[kind] for kind in NEVER_SENT)

    @property
    def state(self) -> State:
        """Of the result."""
        if self.result is None:
            return "none"
        return "partial" if self.result["partial"] else "whole"

    def words(self) -> str:
        """For the table."""
        by = f" by {', '.join(f'`{name}`' for name in self.failed)}" if self.failed else ""
        parts = [f"exit {self.code}{by}"]
        if self.result is not None:
            failed = [f"{count:,} `{kind}`" for kind, count in self.kinds.most_common(3)]
            more = [f"{len(self.kinds) - 3} kinds more"] if len(self.kinds) > 3 else []
            parts += [f"{self.good:,} good", *failed, *more]
        parts.append({"whole": "result whole", "partial": "result partial", "none": "no result"}[self.state])
        return f"{', '.join(parts)}; {self.growth_mib:+.0f} MiB, {self.wall_s:.0f} s"


@dataclass(frozen=True)
class Fault:
    """One of the table: its row, its name, what it is and how it is made."""

    row: int
    name: str
    what: str
    how: str
    expected: Expected
    inject: Callable[["Rig"], Seen]

    def troubles(self, seen: Seen) -> Iterator[str]:
        """List the differences from the expected outcome; nothing if the run survived."""
        expected = self.expected
        yield from seen.troubles
        if seen.code not in expected.codes:
            yield f"exit code {seen.code}"
        if seen.state != expected.result:
            yield f"the result is {seen.state}"
        if "Traceback" in seen.output:
            yield "a traceback"
        yield from self._of_the_verdict(seen)
        if expected.says and not re.search(expected.says, seen.output):
            yield f"does not say {expected.says!r}"
        if expected.result != "none" and expected.figures and not seen.measured:
            yield "no figures"
        if expected.answered and seen.measured and not seen.good:
            yield "no request was answered"
        if seen.received is not None and seen.measured and not seen.least <= seen.received <= seen.accounted:
            yield f"{seen.received} requests came to the server, the result speaks of {seen.accounted}"
        if seen.wall_s > expected.within_s:
            yield f"took {seen.wall_s:.0f} s"
        if seen.growth_mib > expected.growth_mib:
            yield f"grew by {seen.growth_mib:.0f} MiB"
        yield from seen.left

    def _of_the_verdict(self, seen: Seen) -> Iterator[str]:
        """Name the constraints and the kinds of failure that are not those expected."""
        expected = self.expected
        if expected.constraint and expected.constraint not in seen.failed:
            yield f"{expected.constraint} holds"
        if others := {*seen.failed} - {
            *NOISE,
            *(SHARES if seen.kinds else ()),
            *expected.may_fail,
            expected.constraint,
        }:
            yield f"{', '.join(sorted(others))} failed"
        if expected.kinds is not None:
            if missing := set(expected.kinds) - seen.kinds.keys():
                yield f"no {', '.join(sorted(missing))}"
            if others := {*seen.kinds} - {*expected.kinds, *expected.also}:
                yield f"also {', '.join(sorted(others))}"


FAULTS: list[Fault] = []
"""All of them, as the modules define them."""


def fault(
    row: int, name: str, what: str, how: str, expected: Expected
) -> Callable[[Callable[["Rig"], Seen]], Callable[["Rig"], Seen]]:
    """Put a function that injects a fault into the list."""

    def add(inject: Callable[["Rig"], Seen]) -> Callable[["Rig"], Seen]:
        FAULTS.append(Fault(row, name, what, how, expected, inject))
        return inject

    return add
