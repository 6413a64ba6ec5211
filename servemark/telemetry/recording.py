"""Readings over time, in bounded memory however long the run is."""

import math
from array import array
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from servemark.results.schema.run import Recorded, SeriesColumn

MAX_POINTS = 6000
"""Ten minutes at 10 Hz. Beyond them neighbours are joined, so that a longer series has 3,000 to 6,000 points."""
MAX_COLUMNS = 512
"""A server with more metrics has the others left out."""


class Column(NamedTuple):
    """One figure of a series, named as the Prometheus metric; this machine's own without `servemark_`."""

    name: str
    unit: str
    labels: tuple[tuple[str, str], ...] = ()
    counter: bool = False
    """It only grows: its last value tells what its mean would not."""


Reading = Mapping[Column, float | str]
"""Each figure, or why there is none."""
Floats = npt.NDArray[np.float64]


class Recording:
    """A time and a value of each column for each point; NaN where a value is not known.

    A point is the mean of the readings since the point before, a counter's the last of them; its time is the last
    one's. The times are seconds.
    """

    def __init__(self, max_points: int = MAX_POINTS) -> None:
        self._max_points = max_points
        self.readings_per_point = 1
        """Since the series was last thinned."""
        self._times = array("d")
        self._values: dict[Column, array[float]] = {}
        self._reasons: dict[Column, str] = {}
        self._gathered: list[Reading] = []

    def add(self, time_s: float, reading: Reading) -> None:
        """Take a reading."""
        self._gathered.append(reading)
        if len(self._gathered) >= self.readings_per_point:
            gathered, self._gathered = self._gathered, []
            self._append(time_s, gathered)
            if len(self._times) >= self._max_points:
                self._thin()

    def _append(self, time_s: float, gathered: list[Reading]) -> None:
        for column in dict.fromkeys(column for reading in gathered for column in reading):
            if column not in self._values:
                if len(self._values) >= MAX_COLUMNS:
                    continue
                self._values[column] = array("d", [math.nan]) * len(self._times)
        for column, values in self._values.items():
            found = [reading[column] for reading in gathered if column in reading]
            known = [value for value in found if not isinstance(value, str)]
            for reason in (value for value in found if isinstance(value, str)):
                self._reasons[column] = reason
            if len(found) < len(gathered) and column not in self._reasons:
                self._reasons[column] = "the source did not show it all the time"
            values.append(math.nan if not known else known[-1] if column.counter else sum(known) / len(known))
        self._times.append(time_s)

    def _thin(self) -> None:
        """Join each two neighbours."""
        self.readings_per_point *= 2
        self._times = array("d", _joined(np.array(self._times), last=True))
        self._values = {c: array("d", _joined(np.array(v), last=c.counter)) for c, v in self._values.items()}

    def to_dict(self) -> Recorded:
        """The times and columns as series.json holds them; the thread that adds may still do so."""
        # What is appended first is the longest.
        count = min(map(len, (self._times, *self._values.values())))
        columns: list[SeriesColumn] = []
        for column, values in list(self._values.items()):
            shown = [_shown(value, 9 if column.counter else 6) for value in values[:count]]
            columns.append(
                {
                    "name": column.name,
                    "unit": column.unit,
                    "labels": dict(column.labels),
                    "counter": column.counter,
                    "values": shown,
                    "reason": self._reasons.get(column) if None in shown else None,
                }
            )
        return {"time_s": [round(time_s, 6) for time_s in self._times[:count]], "columns": columns}


def _joined(values: Floats, *, last: bool) -> Floats:
    """Each two neighbours as one: the last, or the mean; of one that is not known the other."""
    first, second = values[0 : len(values) // 2 * 2 : 2], values[1::2]
    both = second if last else (first + second) / 2
    joined: Floats = np.where(np.isnan(second), first, np.where(np.isnan(first), second, both))
    return joined if len(values) % 2 == 0 else np.append(joined, values[-1])


def _shown(value: float, digits: int) -> float | None:
    return None if not math.isfinite(value) else float(f"{value:.{digits}g}")
