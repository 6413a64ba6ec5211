"""A high-dynamic-range histogram of durations, and its percentiles with their confidence."""

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servemark.stats.percentiles import Ranks, TooLittle, independent_ranks, ranks, samples_needed
from servemark.stats.unknown import unknown

SIGNIFICANT_DIGITS = 3
ROUNDING = 2.0**-48
"""Share of a sum of squares that its rounding may be."""
MAX_US = 3_600_000_000
"""One hour in µs, the highest latency that is told apart."""

# HdrHistogram's layout for 3 significant digits: 2048 sub-buckets, so that 1000 +/- 0.5 can be told apart, doubling in
# width from bucket to bucket. A value keeps its 11 leading bits, an error of at most 1/2048 = 0.05 %.
_SUB_BUCKET_BITS = 11
_HALF = 1 << (_SUB_BUCKET_BITS - 1)
_BUCKETS = MAX_US.bit_length() - _SUB_BUCKET_BITS + 1
_SLOTS = (_BUCKETS + 1) * _HALF


class Histogram:
    """Counts of durations at 1 µs resolution and 3 significant digits, in constant memory.

    Recording is vectorised (a Python call per value would cost as much as sending the request). The buckets are those
    of HdrHistogram (G. Tene), and `encode` hands them to its library for the standard file format.
    """

    def __init__(self) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(_SLOTS, dtype=np.int64)
        self.count = 0
        self.failed = 0
        """Requests that have no duration: they count as longer than every other."""
        self.min_ns = 0
        self.max_ns = 0
        self._sum_ns = 0.0
        self._sum_squares = 0.0
        self._packed: list[Any] | None = None

    def record(self, durations_ns: npt.NDArray[np.int64]) -> None:
        """Add durations in nanoseconds; a negative one is a programming error."""
        if not durations_ns.size:
            return
        low, high = int(durations_ns.min()), int(durations_ns.max())
        if low < 0:
            raise ValueError(f"a duration of {low} ns was recorded: clocks were mixed")
        durations_us = np.minimum((durations_ns + 500) // 1000, MAX_US)
        np.add.at(self.counts, _slots(durations_us), 1)
        self.min_ns = min(self.min_ns, low) if self.count else low
        self.max_ns = max(self.max_ns, high)
        self.count += durations_ns.size
        seconds = durations_ns / 1e9
        self._sum_ns += float(durations_ns.sum())
        self._sum_squares += float(np.dot(seconds, seconds))

    def merge(self, other: "Histogram") -> None:
        """Add another histogram's counts: percentiles are merged this way, never averaged."""
        self.failed += other.failed
        if not other.count:
            return
        self.min_ns = min(self.min_ns, other.min_ns) if self.count else other.min_ns
        self.max_ns = max(self.max_ns, other.max_ns)
        self.counts += other.counts
        self.count += other.count
        self._sum_ns += other._sum_ns
        self._sum_squares += other._sum_squares

    def without(self, part: "Histogram") -> "Histogram":
        """Subtract a part that it counts; minimum and maximum stay its own."""
        rest = Histogram()
        rest.counts, rest.count = self.counts - part.counts, self.count - part.count
        rest.failed = self.failed - part.failed
        rest.min_ns, rest.max_ns = self.min_ns, self.max_ns
        rest._sum_ns, rest._sum_squares = self._sum_ns - part._sum_ns, self._sum_squares - part._sum_squares
        return rest

    def at_rank(self, rank: int) -> float:
        """Return the duration in ms of the rank-th smallest sample (1-based), infinity for a failed one.

        It is its slot's middle, but never outside of what was seen.
        """
        if rank > self.count:
            return math.inf
        return min(max(self.value_ms(self._slot_at(rank)), self.min_ns / 1e6), self.max_ns / 1e6)

    def _slot_at(self, rank: int) -> int:
        return int(np.searchsorted(np.cumsum(self.counts), min(max(rank, 1), self.count)))

    @property
    def total(self) -> int:
        """Number of samples, failed ones among them."""
        return self.count + self.failed

    def _rank(self, percentile: float) -> int:
        return math.ceil(round(self.total * percentile / 100, 9))

    def percentile(self, percentile: float) -> float:
        """Return the smallest value (ms) that at least p % of the samples do not exceed (nearest rank).

        It is infinite where it lies among failed ones.
        """
        return self.at_rank(self._rank(percentile))

    def count_above(self, limit_ms: float) -> int:
        """Count the samples above a limit, to the histogram's resolution; failed ones are above every limit."""
        values_ms, counts = self.recorded()
        return int(counts[values_ms > limit_ms].sum()) + self.failed

    @staticmethod
    def resolution(milliseconds: float) -> float:
        """Return the width of a value's slot as a share of the value: 1 µs at least, 0.1 % at most beyond 1 ms."""
        place = _slots(np.array([min(round(milliseconds * 1e3), MAX_US)]))[0]
        return (1 << max(int(place) // _HALF - 1, 0)) / max(milliseconds * 1e3, 1.0)

    def answered(self) -> "Histogram":
        """Return the same without failed samples."""
        known = Histogram()
        known.merge(self)
        known.failed = 0
        return known

    def recorded(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """The durations in ms that samples are told apart by, ascending, and how many there are of each."""
        slots = np.flatnonzero(self.counts)
        return np.clip(_middles_us(slots) / 1e3, self.min_ns / 1e6, self.max_ns / 1e6), self.counts[slots]

    @property
    def sum_s(self) -> float:
        """All durations together in seconds, exact."""
        return self._sum_ns / 1e9

    def independent_interval(self, percentile: float) -> tuple[float, float]:
        """Return the 95 % interval of a percentile in ms as if the samples were independent."""
        lower, upper = independent_ranks(self.total, percentile)
        return self.at_rank(lower), self.at_rank(upper)

    def ranks(self, percentile: float, windows: Sequence["Histogram"]) -> Ranks | TooLittle:
        """Return the ranks of a percentile's interval and bound, or why there are none.

        `windows` are the samples by the time they were taken.
        """
        if not windows:
            return TooLittle("its windows are not kept")
        rank = self._rank(percentile)
        beyond = self._slot_at(rank) + 1 if rank <= self.count else _SLOTS
        above = [int(window.counts[beyond:].sum()) + window.failed for window in windows]
        return ranks(percentile, above, [window.total for window in windows])

    def mean_ms(self) -> float:
        """Arithmetic mean in ms, exact."""
        return self._sum_ns / self.count / 1e6

    def stdev_ms(self) -> float:
        """Standard deviation in ms, exact."""
        return deviation(self._sum_squares / self.count, self._sum_ns / self.count / 1e9) * 1e3

    def supports(self, percentile: float) -> bool:
        """Return True if a percentile has a value: there are enough samples, and it does not lie among failed ones."""
        return self.total >= samples_needed(percentile) and self.percentile(percentile) < math.inf

    def no_percentile(self, percentile: float, of: str = "samples") -> str | None:
        """Return why a percentile has no value, None where the samples support it."""
        if self.supports(percentile):
            return None
        needed = samples_needed(percentile)
        return f"needs {needed} {of}, has {self.total}" if self.total < needed else self.among_failed()

    def supported(self, percentile: float, of: str = "samples") -> float | None:
        """Return a percentile in ms that the samples support, else an unknown figure."""
        reason = self.no_percentile(percentile, of)
        return self.percentile(percentile) if reason is None else unknown(reason)

    def among_failed(self) -> str:
        """Return the reason why a percentile has no value: it lies among failed samples."""
        return f"beyond every answer: {self.failed:,} of {self.total:,} requests failed"

    def at_rank_or_none(self, rank: int) -> float | None:
        """Return the duration in ms of the rank-th smallest sample, None for a failed one."""
        return self.at_rank(rank) if rank <= self.count else None

    def encode(self) -> str:
        """HdrHistogram V2 base64, values in µs: what the HdrHistogram tools and plotters read."""
        from hdrh.histogram import HdrHistogram

        histogram = HdrHistogram(1, MAX_US, SIGNIFICANT_DIGITS)
        slots = np.flatnonzero(self.counts)
        for middle_us, count in zip(_middles_us(slots), self.counts[slots], strict=True):
            histogram.record_value(max(int(middle_us), 1), int(count))
        encoded: bytes = histogram.encode()
        return encoded.decode("ascii")

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read what `encode` wrote; minimum, maximum and mean are exact to a slot's width only. Raises ValueError."""
        from hdrh.histogram import HdrHistogram

        try:
            decoded = HdrHistogram.decode(text)
        except Exception as error:
            # the library raises anything from zlib.error to its own classes
            raise ValueError(f"no HdrHistogram: {error}") from error
        histogram = cls()
        # Its own iterators go through all empty slots in Python.
        theirs = np.array(decoded.counts[:], np.int64)
        filled = np.flatnonzero(theirs)
        if filled.size:
            values_us = [decoded.get_highest_equivalent_value(decoded.get_value_from_index(int(n))) for n in filled]
            slots, counts = _slots(np.array(values_us, np.int64)), theirs[filled]
            middles_ns = _middles_us(slots) * 1e3
            histogram.counts[slots] = counts
            histogram.count = int(counts.sum())
            histogram.min_ns, histogram.max_ns = int(middles_ns[0]), int(middles_ns[-1])
            histogram._sum_ns = float(counts @ middles_ns)
            histogram._sum_squares = float(counts @ (middles_ns / 1e9) ** 2)
        return histogram

    def pack(self) -> list[Any]:
        """All of it, exactly and without its empty slots, as msgpack can hold it; what did not change costs nothing."""
        if self._packed is None or self._packed[2:4] != [self.count, self.failed]:
            slots = np.flatnonzero(self.counts)
            sums = [self.count, self.failed, self.min_ns, self.max_ns, self._sum_ns, self._sum_squares]
            self._packed = [slots.astype("<u2").tobytes(), self.counts[slots].astype("<i8").tobytes(), *sums]
        return self._packed

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> Self:
        """Rebuild a histogram from `pack`'s output."""
        histogram = cls()
        slots, counts, histogram.count, histogram.failed, histogram.min_ns, histogram.max_ns = packed[:6]
        histogram._sum_ns, histogram._sum_squares = packed[6:]
        histogram.counts[np.frombuffer(slots, "<u2")] = np.frombuffer(counts, "<i8")
        return histogram

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).unpack, (self.pack(),)

    @staticmethod
    def value_ms(slot: int) -> float:
        """The duration in ms that a slot of `counts` stands for."""
        return float(_middles_us(np.array([slot]))[0]) / 1e3


def deviation(mean_square: float, mean: float) -> float:
    """Return the standard deviation from the mean of the squares and the mean; 0 where it is below 6e-8 of the mean.

    Below that the difference of the two is their rounding, which depends on the order in which a make of CPU adds.
    """
    variance = mean_square - mean**2
    return math.sqrt(variance) if variance > mean_square * ROUNDING else 0.0


def _slots(durations_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Slot of each value: its bucket (the power of two beyond 11 bits) and its 11 leading bits within it."""
    # frexp is exact: |value| < 2^53, so the exponent is the bit length.
    bits = np.frexp(durations_us.astype(np.float64))[1].astype(np.int64)
    bucket = np.maximum(bits - _SUB_BUCKET_BITS, 0)
    slots: npt.NDArray[np.int64] = bucket * _HALF + (durations_us >> bucket)
    return slots


def _middles_us(slots: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The middle of each slot's values in µs."""
    bucket = np.maximum(slots // _HALF - 1, 0)
    middles: npt.NDArray[np.float64] = ((slots - bucket * _HALF) << bucket) + ((1 << bucket) - 1) / 2
    return middles
