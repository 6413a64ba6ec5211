"""Parquet files beside a result: other programs find the names, types and nulls there that the columns declare."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as pq
import pytest

from servemark.errors import ResultError
from servemark.library import parquet, read_requests, read_series
from servemark.library.arrays import to_parquet
from servemark.library.parquet import REQUESTS, SERIES, Column
from servemark.results.saved import Saved
from tests.support.saved_documents import run


def test_another_reader_finds_the_declared_columns(tmp_path: Path) -> None:
    saved = run(tmp_path / "a")
    written = to_parquet(saved)
    assert [file.name for file in written] == ["requests.parquet", "series.parquet"]
    for file, columns in zip(written, (REQUESTS, SERIES), strict=True):
        table = pq.read_table(file)
        for column in columns:
            field = table.schema.field(column.name)
            kind = field.type.value_type if column.type == "string" else field.type
            assert (str(kind), field.nullable) == (column.type, column.nullable)
            assert field.metadata[b"description"].decode() == column.description
    requests = pq.read_table(written[0])
    assert requests.num_rows == 440
    failed = requests.filter(arrow.compute.is_valid(requests["error"])).to_pylist()
    assert [(row["scheduled_ns"], row["error"]) for row in failed] == [(1_475_000_000, "http_500")]
    (tmp_path / "a" / "requests.csv").unlink()
    assert to_parquet(saved) == written[1:]  # a run without a log


@pytest.mark.parametrize("folder", [None, "a"])
def test_what_has_no_tables_gets_no_file(folder: str | None, tmp_path: Path) -> None:
    assert to_parquet(Saved("x", {}, tmp_path if folder else None)) == []
    assert not list(tmp_path.iterdir())


def test_without_pyarrow_the_text_is_read_and_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = run(tmp_path / "a")
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ResultError, match=r"requests\.parquet needs pyarrow.*\n.*pip install 'servemark\[parquet\]'"):
        to_parquet(saved)
    (tmp_path / "a" / "requests.parquet").write_bytes(b"not read where there is the text")
    (tmp_path / "a" / "series.parquet").write_bytes(b"")
    assert read_requests(tmp_path / "a")
    assert read_series(tmp_path / "a")
    (tmp_path / "a" / "requests.csv").unlink()
    with pytest.raises(ResultError, match="needs pyarrow"):
        read_requests(tmp_path / "a")


def test_columns_of_another_writer_are_checked_and_damage_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "requests.parquet"
    whole = {"scheduled_ns": [1], "sent_ns": [None], "done_ns": [2], "error": [None]}
    pq.write_table(arrow.table(whole), file)
    found = read_requests(tmp_path)
    assert found
    assert (found.error.tolist(), np.isnan(found.sent_ns).tolist()) == ([""], [True])
    pq.write_table(arrow.table({**whole, "done_ns": arrow.array([None], arrow.int64())}), file)
    with pytest.raises(ResultError, match="done_ns has nulls"):
        read_requests(tmp_path)
    pq.write_table(arrow.table({"scheduled_ns": [1]}), file)
    for damaged in (file.read_bytes(), b"", b"PAR1" * 9):
        file.write_bytes(damaged)
        with pytest.raises(ResultError, match=r"requests\.parquet (?s:cannot be read.*)\n  fix: write it anew"):
            read_requests(tmp_path)


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    empty: dict[str, parquet.Values] = {
        "number": np.array([], np.int64),
        "word": parquet.Words(np.array([], np.int32), []),
    }
    columns = (Column("number", "int64", "A number."), Column("word", "string", "A word.", nullable=True))
    parquet.write(tmp_path / "x", columns, empty)
    found = parquet.read(tmp_path / "x", columns)
    assert (len(found["number"]), len(found["word"][0])) == (0, 0)
