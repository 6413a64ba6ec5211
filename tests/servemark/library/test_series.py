"""Figures over time as arrays: from the documents of a run, and from their Parquet form."""

from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from servemark.library import TimeSeries, read_series
from servemark.library.parquet import SERIES
from servemark.library.series import series_of, to_parquet
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.results.schema.run import SeriesColumn, SeriesOf
from tests.support.saved_documents import run

WINDOW = {"start_s": 0.0, "requests_per_s": 40.0, "errors": 0, "p50_ms": 2.0, "p99_ms": None, "p99_ms_reason": "few"}


def column(name: str, values: list[float | None], reason: str | None = None, **changes: Any) -> SeriesColumn:
    found: Any = {"name": name, "unit": "watts", "labels": {}, "counter": False, "values": values, "reason": reason}
    return cast(SeriesColumn, found | changes)


def source(name: str, times: list[float], *columns: SeriesColumn) -> SeriesOf:
    read: Any = {"period_s": 0.1, "readings_per_point": 1, "readings": 2, "skipped": 0, "cpu_s": 0.0, "longest_ms": 1.0}
    return cast(SeriesOf, {"source": name, "time_s": times, "columns": [*columns], "absent": {}, **read})


def with_series(folder: Path, *sources: SeriesOf) -> Saved:
    saved = run(folder)
    assert saved.folder
    directory.write_series(
        saved.folder,
        {
            "schema_version": 4,
            "kind": "machine_series",
            "start_epoch_s": 1e9,
            "measured_from_s": 1.5,
            "measured_until_s": 11.5,
            "series": [*sources],
        },
    )
    return saved


def assert_alike(first: list[TimeSeries], second: list[TimeSeries]) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for each in fields(TimeSeries):
            np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name))


def test_times_count_from_the_measured_interval_as_those_of_requests(tmp_path: Path) -> None:
    power = column("gpu_power_watts", [100.0, None], "the driver did not answer", labels={"gpu": "0"})
    joules = column("joules_total", [5.0, 6.0], counter=True)
    with_series(tmp_path / "a", source("machine", [1.0, 2.0], power, joules))
    found = [each for each in read_series(tmp_path / "a") if each.source == "machine"]
    assert [(each.name, each.unit, each.labels, each.counter) for each in found] == [
        ("gpu_power_watts", "watts", {"gpu": "0"}, False),
        ("joules_total", "watts", {}, True),
    ]
    np.testing.assert_array_equal(found[0].value, [100.0, np.nan])
    assert found[0].time_s.tolist() == [-0.5, 0.5]
    assert [each.reason for each in found] == ["the driver did not answer", ""]


def test_windows_are_series_with_their_reasons() -> None:
    server = {"queue_ms": 1.5, "compute_infer_ms": None, "compute_infer_ms_reason": "none executed"}
    second = {**WINDOW, "start_s": 1.0, "count": 7, "server": None, "server_reason": "not read"}
    windows = [{**WINDOW, "server": server}, second]
    found = {each.name: each for each in series_of(Saved("x", {"windows": windows}))}
    names = ["requests_per_s", "errors", "p50_ms", "p99_ms", "server_queue_ms", "server_compute_infer_ms", "count"]
    assert [*found] == names
    assert {(each.source, tuple(each.time_s)) for each in found.values()} == {("windows", (0.0, 1.0))}
    np.testing.assert_array_equal(found["server_queue_ms"].value, [1.5, np.nan])
    np.testing.assert_array_equal(found["p99_ms"].value, [np.nan, np.nan])
    reasons = [found[name].reason for name in ("p50_ms", "p99_ms", "server_queue_ms", "server_compute_infer_ms")]
    assert reasons == ["", "few", "not read", "none executed"]
    assert [found[name].unit for name in ("p50_ms", "count")] == ["ms", ""]


def test_documents_and_parquet_are_read_alike(tmp_path: Path) -> None:
    labels = [{"model": 'a"b', "version": "1"}, {"model": "c, d=e"}]
    columns = [column("nv_inference_count", [1.0, None, 3.0], "late", labels=each) for each in labels]
    saved = with_series(
        tmp_path / "a",
        source("machine", [0.0, 1.0], column("cpu", [0.5, None], "why"), column("cpu", [None, None], "why")),
        source("triton", [0.0, 1.0, 2.0], *columns),
        source("node", [0.0], column("cpu", [1.0])),
    )
    of_documents = read_series(tmp_path / "a")
    to_parquet(saved)
    (tmp_path / "a" / "result.json").unlink()
    (tmp_path / "a" / "series.json").unlink()
    of_parquet = read_series(tmp_path / "a")
    assert {each.source for each in of_parquet} == {"windows", "machine", "triton", "node"}
    assert_alike(of_documents, of_parquet)


def test_a_series_has_a_field_for_each_column() -> None:
    assert {each.name for each in fields(TimeSeries)} == {each.name for each in SERIES}
