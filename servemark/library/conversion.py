"""The tables of a result as Parquet files beside it."""

from pathlib import Path

from servemark.library import parquet, requests, series
from servemark.library.parquet import REQUESTS, SERIES
from servemark.results.saved import Saved


def to_parquet(saved: Saved) -> list[Path]:
    """Write `requests.parquet`, if a log was kept, and `series.parquet`; return them, or none. Raises ResultError."""
    if saved.folder is None:
        return []
    written: list[Path] = []
    log = saved.folder / requests.CSV_FILE
    if log.is_file():
        written.append(saved.folder / requests.PARQUET_FILE)
        parquet.write(written[-1], REQUESTS, requests.read_log(log))
    if found := series.series_of(saved):
        written.append(saved.folder / series.PARQUET_FILE)
        parquet.write(written[-1], SERIES, series.table_of(found))
    return written
