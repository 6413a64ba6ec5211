"""The request log as arrays: the same from its text and from its Parquet form."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servemark.errors import ResultError
from servemark.library import Requests, read_requests
from servemark.library.parquet import REQUESTS, write
from servemark.library.requests import CSV_FILE, HEAD, PARQUET_FILE, read_log

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
    assert [each.dtype for each in (found.scheduled_ns, found.sent_ns, found.done_ns)] == [
        np.int64,
        np.float64,
        np.int64,
    ]


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
    write(folder / PARQUET_FILE, REQUESTS, read_log(log))
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
