"""Source of parts of ceilings: kept by an earlier run, else measured in the case process."""

from collections.abc import Callable

from kernels.ceilings.kept import Kept, KeptPart, beside_others
from kernels.ceilings.parts import Part
from kernels.ceilings.working_sets import words
from kernels.measurement.case import Method, Unmeasured
from kernels.measurement.other_work import taken, watching
from servemark.campaign import Progress
from servemark.machine.own_process import Ended, OwnProcess
from servemark.output import note

PART_LIMIT_S = 120.0
"""Longest time of a part (s)."""


class Source:
    """Gets the parts of one precision, and remembers what was said of them. Nothing that is left out ends a run."""

    def __init__(self, process: OwnProcess, method: Method, kept: Kept, precision: str, progress: Progress) -> None:
        self.method, self.precision = method, precision
        self._process, self._kept, self._progress = process, kept, progress
        self.parts: list[KeptPart] = []
        self.reused = False
        """True if an earlier run kept any part."""
        self.left_out: list[str] = []
        """Parts that were not measured, each with its reason."""

    def get(
        self, name: str, unit: str, cost_s: float, measure: Callable[..., Part], *arguments: object
    ) -> KeptPart | None:
        """A part; None where it cannot be measured. Raises KeyboardInterrupt."""
        if found := self._kept.get(name):
            self.reused = True
            self.parts.append(found)
            return found
        watch = watching()
        try:
            part = self._process.run(measure, *arguments, self.method, timeout_s=PART_LIMIT_S)
        except (Ended, Unmeasured) as reason:
            self._progress.done(cost_s)
            self.leave_out(f"{name}: {reason}")
            return None
        found = self._kept.keep(name, part, taken(watch))
        self.parts.append(found)
        of = f"a working set of {words(part.size_bytes)}" if part.size_bytes else part.of
        share = found["other_cpu_share"] or 0.0
        beside = f"; too low, not kept: other work took {share:.0%} of the cores" if beside_others(found) else ""
        self._say(f"{part.value:.3g} {unit}, {of}{beside}{self._progress.done(cost_s)}")
        return found

    def leave_out(self, reason: str | None) -> None:
        """Say what is not measured, if anything."""
        if reason:
            self.left_out.append(reason)
            self._say(f"left out {reason}")

    def _say(self, text: str) -> None:
        note(f"ceilings of {self.precision}: {text}")
