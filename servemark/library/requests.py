"""Every request of a run as arrays, from the log that --request-log keeps, or from its Parquet form."""

import csv
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.errors import ResultError, parsing
from servemark.library import parquet
from servemark.library.parquet import REQUESTS, Values, Words

CSV_FILE, PARQUET_FILE = "requests.csv", "requests.parquet"
HEAD = [column.name for column in REQUESTS]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Requests:
    """One value a request, in the order of their outcomes. Times are ns from the start of the measured interval."""

    scheduled_ns: Integers
    """Negative in the warm-up."""
    sent_ns: Floats
    """NaN where a request was never sent; whole numbers, and exact in a run of less than 100 days."""
    done_ns: Integers
    error: npt.NDArray[np.str_]
    """Kind of the failure, "" where there is none."""

    def __getitem__(self, chosen: Booleans) -> "Requests":
        """Choose the requests where an array is True."""
        return Requests(self.scheduled_ns[chosen], self.sent_ns[chosen], self.done_ns[chosen], self.error[chosen])

    @property
    def latency_ms(self) -> Floats:
        """From the schedule to the answer; of a failed request to the failure."""
        return (self.done_ns - self.scheduled_ns) / 1e6

    @property
    def service_time_ms(self) -> Floats:
        """From the sending to the answer; NaN where a request was never sent."""
        return (self.done_ns - self.sent_ns) / 1e6

    @property
    def schedule_delay_ms(self) -> Floats:
        """From the schedule to the sending; NaN where a request was never sent."""
        return (self.sent_ns - self.scheduled_ns) / 1e6

    @property
    def measured(self) -> Booleans:
        """True from the start of the measured interval on, False in the warm-up."""
        return self.scheduled_ns >= 0


def read_requests(result: Path | str) -> Requests | None:
    """Read the requests of a result directory; None where no log was kept. Raises ResultError."""
    table, log = Path(result) / PARQUET_FILE, Path(result) / CSV_FILE
    if parquet.usable(table, log):
        return _requests(parquet.read(table, REQUESTS))
    return _requests(read_log(log)) if log.is_file() else None


def _requests(columns: Mapping[str, Any]) -> Requests:
    error: Words = columns["error"]
    kinds = np.array(error.words or [""])[error.codes]
    return Requests(columns["scheduled_ns"], columns["sent_ns"], columns["done_ns"], kinds)


def read_log(file: Path) -> dict[str, Values]:
    """Read the columns of the text. Raises ResultError."""
    scheduled, sent, done, codes = array("q"), array("d"), array("q"), array("i")
    words: dict[str, int] = {}
    with parsing(file, ResultError, fix="name a whole result directory"), files.opened_text(file) as lines:
        rows = csv.reader(lines)
        if (head := next(rows, None)) != HEAD:
            raise ValueError(f"its first line is {head}, not {HEAD}")
        for due, out, end, error in rows:
            scheduled.append(int(due))
            sent.append(float(out or "nan"))
            done.append(int(end))
            codes.append(words.setdefault(error, len(words)))
    kinds = Words(np.array(codes), [*words])
    return dict(zip(HEAD, (np.array(scheduled), np.array(sent), np.array(done), kinds), strict=True))
