"""The two sides of one subject: which of their runs count, and why they may not be enough for a judgement."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servemark.compare.interleaved.validity import unmet
from servemark.compare.saved.saved_runs import Run
from servemark.results.constraint_kinds import About, Kind, about, consequences, of_the_server
from servemark.results.schema.run import Result
from servemark.results.verdict import failed_constraints
from servemark.stats.histogram import Histogram


def faults(result: Result, *, interleaved: bool = False) -> list[str]:
    """Return the constraints that make a run's figures unfit to compare; if there are none, the run counts.

    They are those of a machine or generator that disturbed the run; other work on the machine counts only if the other
    side's runs were not `interleaved`. A server's failure is not one of them, because a side without its failing runs
    would look better than it is.
    """
    names = unmet(result) if interleaved else failed_constraints(result["verdict"])
    evidence = of_the_server(names)
    if evidence:
        evidence += consequences(names)
    return [name for name in names if name not in evidence]


@dataclass(frozen=True)
class Side:
    """The runs of one side that count; `trouble` says why they cannot be judged, None: they can."""

    name: str
    runs: Sequence[Run]
    note: str | None = None
    """Remark about the runs for the reader."""
    trouble: str | None = None

    @property
    def latencies(self) -> list[Histogram]:
        """The latencies of each run."""
        return [run.latency for run in self.runs]

    @classmethod
    def of(cls, name: str, runs: Sequence[Run], other: Sequence[Run] = (), *, allow_invalid: bool) -> "Side":
        """Leave out the runs that do not count, while they are fewer than half and two remain.

        `other` are the runs of the other side, if the n-th of both belong to one round: a round counts as a whole.
        """
        broken = _broken(runs, interleaved=bool(other))
        lost = broken.keys() | _broken(other, interleaved=True).keys()
        kept = [run for index, run in enumerate(runs) if index not in lost]
        few = f"{name} has {len(runs)} run{'s' * (len(runs) != 1)}: measure with --repeat 5, or more --rounds"
        if not broken:
            counted = runs if allow_invalid or len(kept) < 2 else kept
            return cls(name, counted, trouble=None if len(runs) > 1 else few)
        why = ", ".join(sorted({constraint for names in broken.values() for constraint in names}))
        are = "is" if len(broken) == 1 else "are"
        note = f"{name}: {len(broken)} of {len(runs)} runs {are} INVALID ({why})"
        if allow_invalid:
            return cls(name, runs, f"{note} and counted by --allow-invalid", None if len(runs) > 1 else few)
        if len(kept) < 2 or 2 * len(lost) >= len(runs):
            return cls(name, runs, note, f"{note}: {_remedy(why)}, or --allow-invalid")
        return cls(name, kept, f"{note} and left out")


def _remedy(failed: str) -> str:
    """Advise how runs are made that count: more of the same do not help where other work disturbs them."""
    names = failed.split(", ")
    by_others = about(names, About.MACHINE) or about(names, About.GENERATOR) or Kind.STEADY_STATE in names
    return "stop other work on this machine and measure again" if by_others else "measure again"


def _broken(runs: Sequence[Run], *, interleaved: bool) -> dict[int, list[str]]:
    """Return the runs that do not count, by number, with the failed constraints."""
    found = {index: faults(run.result, interleaved=interleaved) for index, run in enumerate(runs)}
    return {index: names for index, names in found.items() if names}


def names_of(sides: tuple[str, str]) -> tuple[str, str]:
    """Name two sides: by their folders if these differ, else as they were given."""
    first, second = (_folder(side) for side in sides)
    if first != second:
        return first, second
    return sides if sides[0] != sides[1] else (f"{sides[0]} (A)", f"{sides[1]} (B)")


def _folder(side: str) -> str:
    """Return the last folder that all of a side's paths share."""
    paths = [Path(part).resolve() for part in side.split(",")]
    folders = [path.parent if path.suffix == ".json" else path for path in paths]
    return Path(os.path.commonpath(folders)).name or side
