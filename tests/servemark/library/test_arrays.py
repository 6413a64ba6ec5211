"""Requests and figures over time as arrays: the same from the text and the documents of a run, and from Parquet."""

from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servemark.errors import ResultError
from servemark.library import Requests, TimeSeries, read_requests, read_series
from servemark.library.arrays import CSV_FILE, HEAD, REQUESTS_FILE, read_log, series_of, to_parquet
from servemark.library.parquet import REQUESTS, SERIES, write
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.results.schema.run import SeriesColumn, SeriesOf
from tests.support.saved_documents import run

TIME = st.integers(-(10**12), 10**15)
ROWS = st.lists(st.tuples(TIME, st.none() | TIME, TIME, st.sampled_from(["", "timeout", "http_503", "interrupted"])))


def write_log(folder: Path, rows: str) -> Path:
    file = folder / CSV_FILE
    file.write_text(f"{','.join(HEAD)}\n{rows}")
    return file


def columns_of(requests: Requests) -> list[list[object]]:
    sent = [None if np.isnan(each) else int(each) for each in requests.sent_ns]
    return [requests.scheduled_ns.tolist(), sent, requests.done_ns.tolist(), requests.error.tolist()]


def test_times_are_those_of_the_log(tmp_path: Path) -> None:
    write_log(tmp_path, "-5000000,-4000000,1000000,\n1000000,1500000,3500000,\n2000000,,9000000,timeout\n")
    found = read_requests(tmp_path)
    assert found
    measured = found[found.measured]
    assert measured.latency_ms.tolist() == [2.5, 7.0]
    np.testing.assert_array_equal(measured.service_time_ms, [2.0, np.nan])
    np.testing.assert_array_equal(measured.schedule_delay_ms, [0.5, np.nan])
    assert found[found.error == "timeout"].scheduled_ns.tolist() == [2_000_000]
    kinds = [each.dtype for each in (found.scheduled_ns, found.sent_ns, found.done_ns)]
    assert kinds == [np.int64, np.float64, np.int64]


@given(rows=ROWS)
def test_text_and_parquet_are_read_alike(
    rows: list[tuple[int, int | None, int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lines = (f"{due},{'' if sent is None else sent},{done},{error}\n" for due, sent, done, error in rows)
    log = write_log(folder, "".join(lines))
    expected = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    of_text = read_requests(str(folder))
    assert of_text
    assert columns_of(of_text) == expected
    write(folder / REQUESTS_FILE, REQUESTS, read_log(log))
    log.unlink()
    of_parquet = read_requests(folder)
    assert of_parquet
    assert columns_of(of_parquet) == expected


def test_a_run_without_a_log_has_no_requests(tmp_path: Path) -> None:
    assert read_requests(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "its first line is"),
        ("", "its first line is None"),
        (f"{','.join(HEAD)}\n1,2\n", "not enough values"),
        (f"{','.join(HEAD)}\nx,2,3,\n", "invalid literal"),
    ],
)
def test_damage_names_the_file(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / CSV_FILE).write_text(text)
    with pytest.raises(ResultError, match=rf"requests\.csv cannot be read: {words}"):
        read_requests(tmp_path)


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
    ends = {"start_epoch_s": 1e9, "measured_from_s": 1.5, "measured_until_s": 11.5}
    found: Any = {"schema_version": 4, "kind": "machine_series", **ends, "series": [*sources]}
    directory.write_series(saved.folder, found)
    return saved


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
    for one, other in zip(of_documents, of_parquet, strict=True):
        for each in fields(TimeSeries):
            np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name))


def test_a_series_has_a_field_for_each_column() -> None:
    assert {each.name for each in fields(TimeSeries)} == {each.name for each in SERIES}
