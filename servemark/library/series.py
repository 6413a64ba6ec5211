"""Figures over time as arrays: windows of a run, and what was read of the machines; both tables as Parquet files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.library import parquet, requests
from servemark.library.parquet import REQUESTS, SERIES, Values, Words
from servemark.results.saved import Saved, file_of, read_saved

PARQUET_FILE = "series.parquet"
WINDOWS = "windows"
"""The source of what `result.json` has of each window."""
Floats = npt.NDArray[np.float64]


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
    table = Path(result) / PARQUET_FILE
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
            values = _floats([window.get(name) for window in flat])
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
            about = each["name"], each["unit"], each["labels"], each["counter"]
            yield TimeSeries(source["source"], *about, times, _floats(each["values"]), each["reason"] or "")


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array(values, np.float64)  # None becomes NaN


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
    log = saved.folder / requests.CSV_FILE
    if log.is_file():
        written.append(saved.folder / requests.PARQUET_FILE)
        parquet.write(written[-1], REQUESTS, requests.read_log(log))
    if found := series_of(saved):
        written.append(saved.folder / PARQUET_FILE)
        parquet.write(written[-1], SERIES, table_of(found))
    return written
