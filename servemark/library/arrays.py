"""Requests of a run, and figures over time, as arrays: from the log and the documents of a result, or from Parquet."""

import csv
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.errors import ResultError, parsing
from servemark.library import parquet
from servemark.library.parquet import REQUESTS, SERIES, Values, Words
from servemark.results.saved import Saved, file_of, read_saved

CSV_FILE, REQUESTS_FILE, SERIES_FILE = "requests.csv", "requests.parquet", "series.parquet"
HEAD = [column.name for column in REQUESTS]
WINDOWS = "windows"
"""The source of what `result.json` has of each window."""
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
    table, log = Path(result) / REQUESTS_FILE, Path(result) / CSV_FILE
    if not log.is_file() and not table.is_file():
        return None
    columns: Any = parquet.read(table, REQUESTS) if parquet.usable(table, log) else read_log(log)
    kinds = np.array(columns["error"].words or [""])[columns["error"].codes]
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


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """One figure over time. `SERIES` says what each field means."""

    source: str
    name: str
    unit: str
    labels: Mapping[str, str]
    counter: bool
    time_s: Floats
    value: Floats
    """NaN where it is not known."""
    reason: str = ""
    """Reason for a NaN; empty where there is none."""


def read_series(result: Path | str) -> list[TimeSeries]:
    """Read every figure over time that a result directory holds. Raises ResultError."""
    table = Path(result) / SERIES_FILE
    if parquet.usable(table, file_of(Path(result))):
        return list(_of_table(parquet.read(table, SERIES)))
    return series_of(read_saved(Path(result)))


def series_of(saved: Saved) -> list[TimeSeries]:
    """Return the windows of a saved run, then the readings of its machines."""
    return [*_of_windows(saved.document.get("windows") or []), *_of_machines(saved)]


def _of_windows(windows: Sequence[Mapping[str, Any]]) -> Iterator[TimeSeries]:
    flat = [
        {**window, **{f"server_{key}": figure for key, figure in (window.get("server") or {}).items()}}
        for window in windows
    ]
    times = np.array([window["start_s"] for window in windows])
    figures = (key for window in flat for key, figure in window.items() if not isinstance(figure, str | Mapping))
    for name in dict.fromkeys(figures):
        if name not in {"start_s", "server"}:
            values = np.array([window.get(name) for window in flat], np.float64)  # None becomes NaN
            unit = "ms" if name.endswith("_ms") else ""
            yield TimeSeries(WINDOWS, name, unit, {}, False, times, values, _reason(name, flat))


def _reason(name: str, windows: Sequence[Mapping[str, Any]]) -> str:
    """Return the first reason why a figure is null; the server's figures may have one together."""
    whole = f"{name.partition('_')[0]}_reason"
    unknown = (window for window in windows if window.get(name) is None)
    return next((str(why) for each in unknown if (why := each.get(f"{name}_reason") or each.get(whole))), "")


def _of_machines(saved: Saved) -> Iterator[TimeSeries]:
    found = saved.machine_series
    if found is None:
        return
    for source in found["series"]:
        times = np.array(source["time_s"]) - found["measured_from_s"]
        for each in source["columns"]:
            about = source["source"], each["name"], each["unit"], each["labels"], each["counter"]
            yield TimeSeries(*about, times, np.array(each["values"], np.float64), each["reason"] or "")


def table_of(series: Sequence[TimeSeries]) -> dict[str, Values]:
    """Put series below each other, as the columns of a table."""
    rows = np.repeat(np.arange(len(series), dtype=np.int32), [len(each.time_s) for each in series])
    texts = {
        "source": [each.source for each in series],
        "name": [each.name for each in series],
        "unit": [each.unit for each in series],
        "labels": [json.dumps(each.labels) for each in series],
        "reason": [each.reason for each in series],
    }
    columns: dict[str, Values] = {name: _coded(words, rows) for name, words in texts.items()}
    columns["counter"] = np.array([each.counter for each in series], bool)[rows]
    for name in ("time_s", "value"):
        columns[name] = np.concatenate([np.empty(0), *(getattr(each, name) for each in series)])
    return columns


def _coded(words: Sequence[str], rows: npt.NDArray[np.int32]) -> Words:
    """Number the different words of a column that has one for each series."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    return Words(np.array([numbers[word] for word in words], np.int32)[rows], [*numbers])


def _of_table(columns: Mapping[str, Any]) -> Iterator[TimeSeries]:
    """Cut a table where the next series begins."""
    times, count = columns["time_s"], len(columns["time_s"])
    begins = np.diff(times) <= 0
    for name in ("source", "name", "labels"):
        begins |= np.diff(columns[name].codes) != 0
    starts = [0, *(np.flatnonzero(begins) + 1)] if count else []
    for start, end in zip(starts, [*starts[1:], count], strict=False):
        source, name, unit, labels, reason = (
            columns[key].words[columns[key].codes[start]] for key in ("source", "name", "unit", "labels", "reason")
        )
        about = source, name, unit, json.loads(labels), bool(columns["counter"][start])
        yield TimeSeries(*about, times[start:end], columns["value"][start:end], reason)


def to_parquet(saved: Saved) -> list[Path]:
    """Write `requests.parquet`, if a log was kept, and `series.parquet` beside a result. Raises ResultError.

    Returns what was written, nothing for a result without a folder.
    """
    if saved.folder is None:
        return []
    written: list[Path] = []
    log = saved.folder / CSV_FILE
    if log.is_file():
        written.append(saved.folder / REQUESTS_FILE)
        parquet.write(written[-1], REQUESTS, read_log(log))
    if found := series_of(saved):
        written.append(saved.folder / SERIES_FILE)
        parquet.write(written[-1], SERIES, table_of(found))
    return written
