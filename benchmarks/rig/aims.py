"""Aims of a benchmark, compared with its results."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rig.load import Figures
from servemark.stats.ratios import ratio_of_pairs


@dataclass(frozen=True)
class Aim:
    """Bounds of a figure; one without bounds is shown only."""

    least: float | None = None
    most: float | None = None

    def met(self, value: float) -> bool:
        """Return True if a value keeps both bounds; NaN keeps none."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def verdict(self, value: float) -> str:
        """The aim and what came of it, in words."""
        if self.least is not None and self.most is not None:
            bounds = f"{self.least:.4g} to {self.most:.4g}"
        elif self.least is not None:
            bounds = f">= {self.least:.4g}"
        elif self.most is not None:
            bounds = f"<= {self.most:.4g}"
        else:
            return "no aim"
        return f"aim {bounds}: {'met' if self.met(value) else 'NOT MET'}"


NONE = Aim()


@dataclass(frozen=True)
class Claim:
    """The ratio of a figure of servemark and of a peer, and its aim; `figure` is a field of Figures."""

    figure: str
    aim: Aim = NONE
    peer: str = "perf_analyzer"

    def report(self, pairs: Sequence[tuple[Figures, Figures]], baseline: Path | None = None) -> str:
        """Return one line; an aim is for the peer, not for another checkout as the baseline."""
        ratio = ratio_of_pairs([(getattr(ours, self.figure), getattr(theirs, self.figure)) for ours, theirs in pairs])
        if baseline:
            return f"{self.figure} ratio servemark / baseline: {ratio}"
        return f"{self.figure} ratio servemark / {self.peer}: {ratio}; {self.aim.verdict(ratio.value)}"
