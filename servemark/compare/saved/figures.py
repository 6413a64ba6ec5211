"""Figures of two sides, one by one: their values, their ratio with its interval, and the judgement of B."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from servemark.compare.interleaved.turn import longer_runs, measured_s, throughput
from servemark.compare.saved.saved_runs import Side
from servemark.errors import OptionError
from servemark.figures.figure import Figure
from servemark.figures.registry import count_of, find, value_of, why_unknown
from servemark.quantities import text_of
from servemark.results.schema.comparison import Difference, Reading
from servemark.results.verdict import Kind, failed_constraints
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import CONFIDENCE, samples_needed
from servemark.stats.power import detectable, runs_needed
from servemark.stats.ratios import (
    MINIMUM_PAIRS,
    Ratio,
    difference_of_means,
    merge,
    ratio_of_merged,
    ratio_of_repeats,
    share_difference,
)

ALL = "regression"
USUAL = ("p50", "p99", "throughput", "errors", "outputs")
"""Figures that `--fail-on regression` stands for."""
RELEVANT_RISE = 0.001
"""A smaller rise of the share of failed requests is not worse."""
MAX_FACTOR = 100.0
"""An interval that is wider than this to either side tells nothing of a ratio."""
ONE_RUN = "one run of each side does not tell how much runs differ: --repeat 5"
KNOWN = ("p50", "p90", "p95", "p99", "p99.9", "throughput", "errors", "outputs")


def chosen(fail_on: str) -> list[str]:
    """Return the figures that `--fail-on` names, in the order of KNOWN. Raises OptionError."""
    names = [name.strip() for name in fail_on.split(",")]
    if not all(names):
        raise OptionError(f"--fail-on {fail_on!r} has an empty name", fix="write it like --fail-on p99,throughput")
    wanted = {each for name in names for each in (USUAL if name == ALL else [_known(name)])}
    return sorted(wanted, key=lambda name: (KNOWN.index(name) if name in KNOWN else len(KNOWN), name))


def _known(name: str) -> str:
    """Return the name by which a figure is compared. Raises OptionError where there is none, or none is better."""
    if name in KNOWN:
        return name
    figure = find(name)
    if figure.better is None:
        raise OptionError(f"--fail-on {name}: neither more nor less of it is better", fix="name another figure")
    return f"p{text_of(figure.percentile)}" if figure.percentile and figure.subject == "latency" else figure.tag


@dataclass(frozen=True)
class Gate:
    """Figures to judge, and the rules for it."""

    figures: str = ALL
    """Figures, as `--fail-on` names them."""
    threshold: float = 0.05
    """The share below which no difference counts."""
    allow_invalid: bool = False
    """True if runs count that are not fit to be compared."""
    paired: bool = False
    """True if the n-th runs of both sides belong to one round."""


@dataclass(frozen=True)
class Pair:
    """Both sides of a subject, B against A, and the rules of their judgement."""

    sides: tuple[Side, Side]
    gate: Gate
    confidence: float = CONFIDENCE
    """Confidence of each interval, so that all judged ones together have 95 %."""

    @property
    def repeated(self) -> bool:
        """True if both sides have several runs, which show the spread between runs."""
        return min(self.counts) > 1

    @property
    def counts(self) -> tuple[int, int]:
        """Runs of A and of B."""
        return len(self.sides[0].runs), len(self.sides[1].runs)

    @property
    def length_s(self) -> float:
        """Measured seconds of the longest run."""
        return max(measured_s(run.result) for side in self.sides for run in side.runs)

    def compare(self, figure: str) -> Difference:
        """Compare one figure of both sides."""
        if re.fullmatch(r"p[\d.]+", figure):
            return self._latency(figure)
        methods: dict[str, Callable[[], Difference]] = {
            "throughput": self._throughput,
            "errors": self._errors,
            "outputs": self._outputs,
        }
        return methods[figure]() if figure in methods else self._other(find(figure))

    def has(self, figure: str) -> bool:
        """Return True if a figure can be judged: outputs that neither side checked cannot."""
        return figure != "outputs" or any(map(_checked, self.sides))

    def can_differ(self, figure: str) -> bool:
        """Return True if chance could make this figure differ between equal servers: not for sides without an error."""
        if figure == "errors":
            return any(value_of(run.result, "errors.share") for side in self.sides for run in side.runs)
        if figure == "outputs":
            return any(equal < count for equal, count in map(_agreement, self.sides))
        return True

    def _latency(self, figure: str) -> Difference:
        percentile, name = float(figure[1:]), f"{figure} ms"
        needed, sides, paired = samples_needed(percentile), [side.latencies for side in self.sides], self.gate.paired
        merged = [merge(side) for side in sides]
        few = min(histogram.total for histogram in merged)
        if few < needed:
            longer = longer_runs(needed, few, self.length_s)
            return difference_of(name, "not known", f"needs {needed:,} samples, has {few:,}: {longer}")
        a, b = (histogram.percentile(percentile) for histogram in merged)
        if b == math.inf:
            return difference_of(
                name, "worse" if a < b else "not known", merged[1].among_failed(), a if a < b else None
            )
        if a == math.inf:
            return difference_of(name, "better", merged[0].among_failed(), None, b)
        if not self.repeated:
            return difference_of(name, "not known", ONE_RUN, a, b, Ratio(b / a, None, None))
        ratio: Ratio | None
        slot = Histogram.resolution(min(a, b))
        if all(h.total >= needed and h.percentile(percentile) < math.inf for side in sides for h in side):
            each = [[histogram.percentile(percentile) for histogram in side] for side in sides]
            ratio = ratio_of_repeats(each[1], each[0], self.confidence, paired=paired, slack=slot)
        else:
            ratio = ratio_of_merged(sides[1], sides[0], percentile, self.confidence, paired=paired, slack=slot)
        if ratio is None:
            fewest = min(histogram.total for side in sides for histogram in side)
            reason = f"fewer than {MINIMUM_PAIRS} runs, and too short: {longer_runs(needed, fewest, self.length_s)}"
            return difference_of(name, "not known", reason, a, b)
        return self._judged(name, a, b, ratio, worse_above=True)

    def _throughput(self) -> Difference:
        name = "inferences/s"
        rates = [[throughput(run.result) for run in side.runs] for side in self.sides]
        if not all(rate for side in rates for rate in side):
            a, b = (float(np.mean(side)) for side in rates)
            return difference_of(name, "worse" if a and not b else "not known", "a run answered nothing", a, b)
        return self._of_values(name, rates, worse_above=False)

    def _other(self, figure: Figure) -> Difference:
        """Compare any other figure by the values of the runs."""
        name = f"{figure.tag} {figure.unit.name}".rstrip()
        found = [[value_of(run.result, figure.tag) for run in side.runs] for side in self.sides]
        known = [[value for value in side if value is not None] for side in found]
        if any(len(side) < len(values) for side, values in zip(known, found, strict=True)):
            lacking = next(
                run.result for side in self.sides for run in side.runs if value_of(run.result, figure.tag) is None
            )
            return difference_of(name, "not known", why_unknown(lacking, figure.tag))
        a, b = (float(np.mean(side)) for side in known)
        if a == b:
            return difference_of(name, "not worse", None, a, b)
        if any(value <= 0 for side in known for value in side):
            return difference_of(name, "not known", "only figures above 0 have a ratio", a, b)
        return self._of_values(name, known, worse_above=figure.better == "lower")

    def _of_values(self, name: str, values: Sequence[Sequence[float]], *, worse_above: bool) -> Difference:
        """Compare the values of both sides' runs, all of them above 0."""
        a, b = (float(np.mean(side)) for side in values)
        if not self.repeated:
            return difference_of(name, "not known", ONE_RUN, a, b, Ratio(b / a, None, None))
        ratio = ratio_of_repeats(values[1], values[0], self.confidence, paired=self.gate.paired)
        return self._judged(name, a, b, ratio, worse_above=worse_above)

    def _judged(self, name: str, a: float, b: float, ratio: Ratio, *, worse_above: bool) -> Difference:
        """Compare a ratio with chance and the threshold."""
        if ratio.low is None or ratio.high is None:
            few = f"fewer than {MINIMUM_PAIRS} windows: raise --duration"
            return difference_of(name, "not known", few, a, b, ratio)
        if ratio.half_width is not None and ratio.half_width > math.log(MAX_FACTOR):
            return difference_of(name, "not known", self._too_few(ratio), a, b, Ratio(ratio.value, None, None))
        slower = ratio if worse_above else ratio.inverse
        found = difference_of(name, read(slower, self.gate.threshold), None, a, b, ratio)
        seen = detectable(ratio, self.counts, self.confidence, paired=self.gate.paired)
        found["minimum_detectable_change"] = seen
        if found["reading"] == "undecided" and self.repeated:
            found["runs_needed"], found["reason"] = self._undecided(slower, seen or 0.0)
        return found

    def _too_few(self, ratio: Ratio) -> str:
        """Say how many runs are needed where those that there are leave every ratio possible."""
        needed = runs_needed(ratio, self.counts, self.gate.threshold, self.confidence, paired=self.gate.paired)
        many = f"about {max(needed, MINIMUM_PAIRS)}" if needed else "more than 1,000"
        name = "rounds" if self.gate.paired else "runs"
        return (
            f"too few {name}: {min(self.counts)} do not show how far {name} lie apart; {many} on each side are needed"
        )

    def _undecided(self, ratio: Ratio, seen: float) -> tuple[int | None, str]:
        """Estimate the number of runs that would decide, and explain why these do not; a ratio above 1 is worse.

        `seen` is the smallest change that these runs would find.
        """
        gap = least = self.gate.threshold
        words = f"would see {seen:.0%} in 80 of 100 cases; for {least:.0%}"
        if seen < least:
            # The runs suffice for the threshold, but what they found lies too near to it.
            gap, words = abs((1 + least) / ratio.value - 1), f"too near to {least:.0%}; to tell"
        needed = runs_needed(ratio, self.counts, gap, self.confidence, paired=self.gate.paired)
        many = f"about {needed} runs" if needed else "more than 1,000 runs"
        first, second = self.counts
        now = f"{first} runs" if first == second else f"{first} and {second} runs"
        return needed, f"{words} {many} of {self.length_s:.3g} s on each side, has {now}"

    def _errors(self) -> Difference:
        """Compare the share of failed requests: a rise beyond chance and of at least 0.1 % of the requests is worse.

        Failures come in bursts, so that the run is the unit and not the request (Kalibera and Jones, Rigorous
        Benchmarking in Reasonable Time, 2013). Runs that are alike to the last request have an interval of no width.
        """
        name = "error share"
        shares = [[value_of(run.result, "errors.share") for run in side.runs] for side in self.sides]
        known = [[share for share in side if share is not None] for side in shares]
        if not all(known):
            return difference_of(name, "not known", "no request was sent in the measured interval")
        a, b = (float(np.mean(side)) for side in known)
        if a == b == 0:
            return difference_of(name, "not worse", None, a, b)
        if b == 1 > a:
            return difference_of(name, "worse", "no request of B succeeded", a, b)
        if min(map(len, known)) < 2:
            return difference_of(name, "not known", ONE_RUN, a, b)
        low, high = difference_of_means(known[1], known[0], self.confidence)
        if high < 0 or (low > 0 and b - a >= RELEVANT_RISE):
            return difference_of(name, "better" if high < 0 else "worse", None, a, b)
        excluded = high < max(RELEVANT_RISE, a)
        reason = None if excluded else f"failures differ between runs: their share may have risen by up to {high:.2%}"
        return difference_of(name, "not worse" if excluded else "undecided", reason, a, b)

    def _outputs(self) -> Difference:
        """Compare the agreement with golden outputs: worse if only B breaks the tolerance, or answers less alike."""
        name, counts = "top-1 agreement", [_agreement(side) for side in self.sides]
        broken = [
            any(Kind.OUTPUT_AGREEMENT in failed_constraints(run.result["verdict"]) for run in side.runs)
            for side in self.sides
        ]
        a, b = (equal / total if total else None for equal, total in counts)
        if broken[1] and not broken[0]:
            return difference_of(
                name, "worse", f"outputs of {self.sides[1].name} lie outside the workload's tolerance", a, b
            )
        if lacks := [side.name for side in self.sides if not _checked(side)]:
            why = f"not checked in {' and '.join(lacks)}: no golden outputs beside the local model"
            return difference_of(name, "not known", why)
        if not all(total for _, total in counts):
            return difference_of(name, "not worse", "within the tolerance; there is no top answer")
        low, high = share_difference(counts[1], counts[0], self.confidence)
        return difference_of(name, "not worse" if low <= 0 <= high else "better" if low > 0 else "worse", None, a, b)


def read(ratio: Ratio, threshold: float) -> Reading:
    """Judge a loss by the interval of a ratio, which is worse above 1.

    A ratio beyond the threshold and beyond chance is worse, or better. An interval that ends below the threshold
    excludes such a loss: not worse. All else is undecided.
    """
    assert ratio.high is not None
    # As factors, so that 5 % more and its inverse weigh the same.
    if ratio.significant and max(ratio.value, 1 / ratio.value) > 1 + threshold:
        return "worse" if ratio.value > 1 else "better"
    return "not worse" if ratio.high < 1 + threshold else "undecided"


def _checked(side: Side) -> int:
    """Count the answers that were compared with golden ones."""
    return sum(count_of(run.result, "outputs.checked") for run in side.runs)


def _agreement(side: Side) -> tuple[int, int]:
    """Count the equal top answers, and all that were compared."""
    found = [(count_of(r.result, "outputs.checked"), value_of(r.result, "outputs.top1_agreement")) for r in side.runs]
    known = [(checked, share) for checked, share in found if checked and share is not None]
    return round(sum(count * share for count, share in known)), sum(count for count, _ in known)


def difference_of(
    figure: str,
    reading: Reading,
    reason: str | None,
    a: float | None = None,
    b: float | None = None,
    ratio: Ratio | None = None,
) -> Difference:
    """Make a figure of A and B, with the judgement of B and its reason."""
    return {
        "figure": figure,
        "a": a,
        "b": b,
        "ratio": ratio.to_dict() if ratio else None,
        "reading": reading,
        "judged": False,
        "regression": False,
        "minimum_detectable_change": None,
        "runs_needed": None,
        "reason": reason,
    }
