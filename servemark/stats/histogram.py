"""A high-dynamic-range histogram of durations, and its percentiles with their confidence."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Self, TypedDict, cast

import numpy as np
import numpy.typing as npt

from servemark.stats.order_statistics import dispersion, interval_ranks
from servemark.stats.percentiles import PERCENTILES, percentile_key, samples_needed

SIGNIFICANT_DIGITS = 3
MAX_US = 3_600_000_000
"""One hour in µs, the highest latency that is told apart."""

# HdrHistogram's layout for 3 significant digits: 2048 sub-buckets, so that 1000 +/- 0.5 can be told apart, doubling in
# width from bucket to bucket. A value keeps its 11 leading bits, an error of at most 1/2048 = 0.05 %.
_SUB_BUCKET_BITS = 11
_HALF = 1 << (_SUB_BUCKET_BITS - 1)
_BUCKETS = MAX_US.bit_length() - _SUB_BUCKET_BITS + 1
_SLOTS = (_BUCKETS + 1) * _HALF


class Percentiles(TypedDict):
    """Percentiles (ms). Null: too few requests."""

    p50: Annotated[float | None, "Median."]
    p90: Annotated[float | None, "90th percentile."]
    p95: Annotated[float | None, "95th percentile."]
    p99: Annotated[float | None, "99th percentile."]
    p99_9: Annotated[float | None, "99.9th percentile."]


class Latency(Percentiles):
    """Durations of the requests that succeeded (ms)."""

    mean: Annotated[float | None, "Mean."]
    stdev: Annotated[float | None, "Standard deviation."]
    min: Annotated[float | None, "Shortest."]
    max: Annotated[float | None, "Longest."]
    count: Annotated[int, "Requests."]
    ci95: Annotated[dict[str, list[float]], "Percentile -> the two bounds of its 95 % interval."]


class Histogram:
    """Counts of durations at 1 µs resolution and 3 significant digits, in constant memory.

    Recording is vectorised (a Python call per value would cost as much as sending the request). The buckets are those
    of HdrHistogram (G. Tene), and `encode` hands them to its library for the standard file format.
    """

    def __init__(self) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(_SLOTS, dtype=np.int64)
        self.count = 0
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
        rest.min_ns, rest.max_ns = self.min_ns, self.max_ns
        rest._sum_ns, rest._sum_squares = self._sum_ns - part._sum_ns, self._sum_squares - part._sum_squares
        return rest

    def at_rank(self, rank: int) -> float:
        """The duration in ms of the rank-th smallest sample (1-based)."""
        return self._seen_ms(self._slot_at(rank))

    def _slot_at(self, rank: int) -> int:
        return int(np.searchsorted(np.cumsum(self.counts), min(max(rank, 1), self.count)))

    def _rank(self, percentile: float) -> int:
        return math.ceil(round(self.count * percentile / 100, 9))

    def percentile(self, percentile: float) -> float:
        """The percentile in ms: the smallest value that at least p % of the samples do not exceed (nearest rank)."""
        return self.at_rank(self._rank(percentile))

    def count_above(self, limit_ms: float) -> int:
        """Count the samples above a limit, to the histogram's resolution."""
        values_ms, counts = self.recorded()
        return int(counts[values_ms > limit_ms].sum())

    def recorded(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """The durations in ms that samples are told apart by, ascending, and how many there are of each."""
        slots = np.flatnonzero(self.counts)
        return np.clip(_middles_us(slots) / 1e3, self.min_ns / 1e6, self.max_ns / 1e6), self.counts[slots]

    @property
    def sum_s(self) -> float:
        """All durations together in seconds, exact."""
        return self._sum_ns / 1e9

    def _seen_ms(self, slot: int) -> float:
        """A slot's middle, but never outside what was seen."""
        return min(max(self.value_ms(slot), self.min_ns / 1e6), self.max_ns / 1e6)

    def interval(self, percentile: float, windows: Sequence["Histogram"] = ()) -> tuple[float, float]:
        """95 % distribution-free confidence interval of a percentile in ms, from binomial order statistics.

        `windows` are its samples by the time they were taken; where they differ by more than chance it is wider.
        """
        beyond = self._slot_at(self._rank(percentile)) + 1
        taken = [window for window in windows if window.count]
        spread = dispersion([int(w.counts[beyond:].sum()) for w in taken], [w.count for w in taken])
        lower, upper = interval_ranks(self.count, percentile, spread)
        return self.at_rank(lower), self.at_rank(upper)

    def mean_ms(self) -> float:
        """Arithmetic mean in ms, exact."""
        return self._sum_ns / self.count / 1e6

    def stdev_ms(self) -> float:
        """Standard deviation in ms, exact."""
        mean_s = self._sum_ns / self.count / 1e9
        return math.sqrt(max(self._sum_squares / self.count - mean_s**2, 0.0)) * 1e3

    def summary(self, *, intervals: bool = True, windows: Sequence["Histogram"] = ()) -> Latency:
        """The statistics as result.json holds them (docs/explanation/metrics.md, "Percentiles"), in ms.

        A percentile that the sample count does not support is None, with `<key>_reason` beside it. Without intervals it
        costs a third, which counts while requests are sent. `windows`: see `interval`.
        """
        keys = [percentile_key(p) for p in PERCENTILES]
        if not self.count:
            names = ["mean", "stdev", "min", *keys, "max"]
            reasons = {f"{key}_reason": "no request succeeded" for key in names}
            return cast(Latency, {**dict.fromkeys(names), **reasons, "count": 0, "ci95": {}})
        out: dict[str, Any] = {"mean": self.mean_ms(), "stdev": self.stdev_ms(), "min": self.min_ns / 1e6}
        ci95: dict[str, list[float]] = {}
        for percentile, key in zip(PERCENTILES, keys, strict=True):
            needed = samples_needed(percentile)
            if self.count < needed:
                out[key] = None
                out[f"{key}_reason"] = f"needs {needed} samples, has {self.count}"
            else:
                out[key] = self.percentile(percentile)
                if intervals:
                    ci95[key] = list(self.interval(percentile, windows))
        return cast(Latency, {**out, "max": self.max_ns / 1e6, "count": self.count, "ci95": ci95})

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
        recorded = [(i.value_iterated_to, i.count_at_value_iterated_to) for i in decoded.get_recorded_iterator()]
        if recorded:
            values_us, counts = np.array(recorded, np.int64).T
            slots = _slots(values_us)
            middles_ns = _middles_us(slots) * 1e3
            histogram.counts[slots] = counts
            histogram.count = int(counts.sum())
            histogram.min_ns, histogram.max_ns = int(middles_ns[0]), int(middles_ns[-1])
            histogram._sum_ns = float(counts @ middles_ns)
            histogram._sum_squares = float(counts @ (middles_ns / 1e9) ** 2)
        return histogram

    def pack(self) -> list[Any]:
        """All of it, exactly and without its empty slots, as msgpack can hold it; what did not change costs nothing."""
        if self._packed is None or self._packed[2] != self.count:
            slots = np.flatnonzero(self.counts)
            sums = [self.count, self.min_ns, self.max_ns, self._sum_ns, self._sum_squares]
            self._packed = [slots.astype("<u2").tobytes(), self.counts[slots].astype("<i8").tobytes(), *sums]
        return self._packed

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> Self:
        """Rebuild a histogram from `pack`'s output."""
        histogram = cls()
        slots, counts, histogram.count, histogram.min_ns, histogram.max_ns = packed[:5]
        histogram._sum_ns, histogram._sum_squares = packed[5:]
        histogram.counts[np.frombuffer(slots, "<u2")] = np.frombuffer(counts, "<i8")
        return histogram

    @staticmethod
    def value_ms(slot: int) -> float:
        """The duration in ms that a slot of `counts` stands for."""
        return float(_middles_us(np.array([slot]))[0]) / 1e3


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
