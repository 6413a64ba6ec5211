"""A figure: its tag and unit, which direction is better, how it is computed, and how those of parts are joined."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from servemark.figures.evidence import Evidence
from servemark.figures.value import MS, Figures, FigureValue, Unit, Value
from servemark.quantities import text_of
from servemark.stats.histogram import Histogram, deviation
from servemark.stats.percentiles import PERCENTILES, TooLittle

NO_ANSWER = "no request succeeded"
NONE_SENT = "no request was sent in the measured interval"
CLOSED_LOOP = "a closed loop has no schedule"
OWN = "each workload has its own, under `mix`"
WITHHELD = "it is withheld in one of the parts"
Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Part:
    """One of several runs whose figures are joined: a workload of a mix."""

    figures: Figures
    histograms: Mapping[str, Histogram]
    """By tag of the distribution."""

    def value(self, tag: str) -> float | None:
        """Return a figure's value, None where it is not known or absent."""
        found = self.figures.get(tag)
        return None if found is None else found["value"]


Join = Callable[[str, Sequence[Part]], Value]
"""Joins the figure of a tag of several parts, which all have it."""


def alone(_tag: str, _parts: Sequence[Part]) -> Value:
    """Leave it unknown: each part has its own."""
    return Value.unknown(OWN)


def same(tag: str, parts: Sequence[Part]) -> Value:
    """Take the first: all parts watched the same machine, or the same meter."""
    found = parts[0].figures[tag]
    return Value(found["value"], _ends(found), found.get("n"), found.get("reason"))


def summed(tag: str, parts: Sequence[Part]) -> Value:
    """Add them up."""
    return _all(tag, parts, math.fsum)


def largest(tag: str, parts: Sequence[Part]) -> Value:
    """Take the largest."""
    return _all(tag, parts, max)


def _all(tag: str, parts: Sequence[Part], join: Callable[[list[float]], float]) -> Value:
    """Join the values; unknown where one of them is, for its reason."""
    values = [part.value(tag) for part in parts]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        gap = parts[values.index(None)].figures[tag]
        return Value.unknown(gap.get("reason") or OWN)
    joined = join(known)
    return Value(int(joined) if all(isinstance(value, int) for value in known) and joined == int(joined) else joined)


def _ends(found: FigureValue) -> tuple[float | None, float | None] | None:
    ends = found.get("ci95")
    return None if ends is None else (ends[0], ends[1])


@dataclass(frozen=True)
class Figure:
    """One figure, declared once. `of` computes it from what a run saw; None: such a run has none."""

    tag: str
    """Its name everywhere: the subject, a point, and what of it, like `energy.per_inference`."""
    unit: Unit
    help: str
    """One sentence."""
    of: Callable[[Evidence], Value | None]
    better: Better | None = None
    """None: neither direction is."""
    join: Join = alone
    """Joins the parts of a mix. Workers are joined before: their counts are."""
    live: bool = False
    """True if it is also computed each second while the run goes on."""
    detail: bool = False
    """True if a report on a terminal leaves it to the page."""
    title: str = ""
    """The name that a reader sees in place of the tag."""
    short: str = ""
    """Another name for it on the command line."""
    percentile: float | None = None
    """Of a distribution's percentile."""
    distribution: "Distribution | None" = None
    """The distribution that it describes."""

    @property
    def subject(self) -> str:
        """The tag's first word."""
        return self.tag.partition(".")[0]

    @property
    def name(self) -> str:
        """The tag's other words."""
        return self.title or self.tag.partition(".")[2].replace("_", " ").replace(".", " ", 1)

    @property
    def column(self) -> str:
        """Its column in a spreadsheet, with the unit: `latency.p99_ms`."""
        return _ending_in(self.unit.column, self.tag)

    @property
    def metric(self) -> str:
        """Its name for Prometheus, in base units: `servemark_energy_per_inference_joules`.

        Prometheus keeps the ending `_count` for histograms.
        """
        return _ending_in(self.unit.base, f"servemark_{self.tag.replace('.', '_')}").removesuffix("_count")


def _ending_in(unit: str, name: str) -> str:
    """Append a unit to a name that does not end in it."""
    return name if name.endswith(unit) else f"{name}{unit}"


@dataclass(frozen=True)
class Distribution:
    """Durations (ms) of which a run has many: mean, deviation, extremes and percentiles are figures of their own.

    A percentile needs ten samples beyond it, and counts a failed request as longer than every other one.
    """

    tag: str
    help: str
    of: Callable[[Evidence], Histogram | str | None]
    """The durations; words: why they are not known; None: such a run has none."""
    title: str = ""
    live: bool = False
    windowed: bool = False
    """True if the run's windows are of it, so that its percentiles have intervals."""
    withheld: Callable[[Evidence, float], str | None] = lambda _evidence, _percentile: None
    """Says why a percentile cannot be stated, though there are samples enough; None: it can."""
    metric: str = ""
    """Name of its histogram for Prometheus, in seconds; "": it has none."""
    better: Better | None = "lower"
    detail: bool = False

    @property
    def name(self) -> str:
        """The name that a reader sees."""
        return self.title or self.tag.replace("_", " ")

    @property
    def figures(self) -> list[Figure]:
        """All figures of it that a result has."""
        return [self._figure(key, point) for key, point in _POINTS.items()]

    def percentile(self, percentile: float) -> Figure:
        """Return the figure of any percentile, also of one that a result does not list."""
        return self._figure(f"p{text_of(percentile)}", _percentile(percentile))

    def values(self, histogram: Histogram, windows: Sequence[Histogram] = ()) -> dict[str, FigureValue]:
        """Return the figures of one histogram: of a stage, or of one of several servers."""
        return {f"{self.tag}.{key}": point.of(histogram, windows).to_dict(MS) for key, point in _POINTS.items()}

    def _figure(self, key: str, point: "_Point") -> Figure:
        def of(evidence: Evidence) -> Value | None:
            found = self.of(evidence)
            if not isinstance(found, Histogram):
                return None if found is None else Value.unknown(found)
            if point.percentile is not None and (reason := self.withheld(evidence, point.percentile)) is not None:
                return Value.unknown(reason, found.total)
            windows = evidence.windows if self.windowed else ()
            return point.of(found, None if evidence.live else windows)

        def join(tag: str, parts: Sequence[Part]) -> Value:
            for part in parts:
                if point.percentile is None or self.tag not in part.histograms:
                    break
                found, own = part.figures[tag], part.histograms[self.tag]
                if found["value"] is None and own.count and own.no_percentile(point.percentile) is None:
                    return Value.unknown(found.get("reason") or WITHHELD, found.get("n"))  # withheld
            return point.join(tag, parts)

        return Figure(
            f"{self.tag}.{key}",
            MS,
            f"{point.help}: {self.help[:1].lower()}{self.help[1:]}",
            of,
            better=self.better,
            join=join,
            live=self.live,
            detail=self.detail,
            percentile=point.percentile,
            distribution=self,
        )


def percentile_of(histogram: Histogram, percentile: float, windows: Sequence[Histogram] | None) -> Value:
    """Compute a percentile, with its interval where there are windows; None: it needs none.

    It is unknown where there are too few samples, or where it lies among failed ones.
    """
    n = histogram.total
    if not histogram.count:
        return Value.unknown(NO_ANSWER, n)
    if (reason := histogram.no_percentile(percentile)) is not None:
        return Value.unknown(reason, n)
    value = histogram.percentile(percentile)
    if windows is None:
        return Value(value, n=n)
    found = histogram.ranks(percentile, windows)
    if isinstance(found, TooLittle):
        return Value(value, n=n, reason=found.reason)
    return Value(value, (histogram.at_rank_or_none(found.low), histogram.at_rank_or_none(found.high)), n)


def merged(distribution: str, parts: Sequence[Part]) -> Histogram:
    """Merge the durations of all parts: percentiles are never averaged."""
    whole = Histogram()
    for part in parts:
        if distribution in part.histograms:
            whole.merge(part.histograms[distribution])
    return whole


Counted = Sequence[tuple[int, Part]]
"""Parts that have samples, with the number of them."""


def _joined(join: Callable[[str, Counted], float]) -> Join:
    """Join the parts that have samples; without any it is what the first part has."""

    def joined(tag: str, parts: Sequence[Part]) -> Value:
        found = [(part.figures[tag], part) for part in parts]
        counted = [(each["n"], part) for each, part in found if each.get("n") and each["value"] is not None]
        return Value(join(tag, counted), n=sum(n for n, _ in counted)) if counted else same(tag, parts)

    return joined


def _mean(tag: str, counted: Counted) -> float:
    return math.fsum(n * (part.value(tag) or 0.0) for n, part in counted) / sum(n for n, _ in counted)


def _stdev(tag: str, counted: Counted) -> float:
    mean_tag = f"{tag.rpartition('.')[0]}.mean"
    squares = [n * ((p.value(tag) or 0.0) ** 2 + (p.value(mean_tag) or 0.0) ** 2) for n, p in counted]
    return deviation(math.fsum(squares) / sum(n for n, _ in counted), _mean(mean_tag, counted))


def _extreme(choose: Callable[[list[float]], float]) -> Join:
    return _joined(lambda tag, counted: choose([part.value(tag) or 0.0 for _, part in counted]))


mean = _joined(_mean)
"""The mean of all samples, from the parts' own, which are exact."""


@dataclass(frozen=True)
class _Point:
    """One point of a distribution."""

    help: str
    of: Callable[[Histogram, Sequence[Histogram] | None], Value]
    """Computes it; for its interval it takes the windows, None where it needs none."""
    join: Join
    percentile: float | None = None


def _moment(help_: str, of: Callable[[Histogram], float], join: Join) -> _Point:
    def compute(histogram: Histogram, _windows: Sequence[Histogram] | None) -> Value:
        n = histogram.count  # failed requests have no duration
        return Value(of(histogram), n=n) if n else Value.unknown(NO_ANSWER, n)

    return _Point(help_, compute, join)


def _percentile(percentile: float) -> _Point:
    def compute(histogram: Histogram, windows: Sequence[Histogram] | None) -> Value:
        return percentile_of(histogram, percentile, windows)

    def join(tag: str, parts: Sequence[Part]) -> Value:
        return percentile_of(merged(tag.partition(".")[0], parts), percentile, ())

    name = "Median" if percentile == 50 else f"{text_of(percentile)}th percentile"
    return _Point(name, compute, join, percentile)


_POINTS = {
    "mean": _moment("Mean of the answered requests", Histogram.mean_ms, mean),
    "stdev": _moment("Standard deviation of the answered requests", Histogram.stdev_ms, _joined(_stdev)),
    "min": _moment("Shortest of the answered requests", lambda histogram: histogram.min_ns / 1e6, _extreme(min)),
    **{f"p{text_of(each)}": _percentile(each) for each in PERCENTILES},
    "max": _moment("Longest of the answered requests", lambda histogram: histogram.max_ns / 1e6, _extreme(max)),
}
