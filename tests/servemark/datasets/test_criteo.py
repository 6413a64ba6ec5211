"""Criteo's last day as MLPerf's reference lays it out: the rows that are asked for, their score, and what is wrong."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark.errors import InputDataError
from servemark.models.dlrm_v2 import FULL, IDS, ROWS
from servemark.quality.metrics import metric_named
from tests.support.workload_data import labelled, read_requests

DENSE, IDS_FILE, LABELS = "day_23_dense.npy", "day_23_sparse_multi_hot.npz", "day_23_labels.npy"


def log(folder: Path, rows: int = 5, end: str = "") -> Path:
    """Lay out a log: numbers that count up, the largest ids of the reference's tables, and every other row clicked."""
    folder.mkdir(exist_ok=True)
    np.save(folder / f"day_23_dense{end}.npy", np.arange(rows * 13, dtype=np.float32).reshape(rows, 13))
    np.save(folder / f"day_23_labels{end}.npy", np.arange(rows, dtype=np.int32)[:, None] % 2)
    ids = {str(i): np.full((rows, k), ROWS[i] - 1, np.int32) for i, k in enumerate(IDS)}
    np.savez(folder / f"day_23_sparse_multi_hot{end}.npz", **ids)
    return folder


def test_the_first_half_of_the_day_is_asked_for_with_ids_within_the_tables(tmp_path: Path) -> None:
    data = labelled("dlrm_v2", log(tmp_path))
    assert data.size == 3  # of 5: the middle row belongs to the first half
    (sample,) = data.example(2).requests
    np.testing.assert_array_equal(sample["numbers"], np.arange(26, 39))
    rows = np.repeat(FULL.rows, IDS)
    np.testing.assert_array_equal(sample["ids"], (np.repeat(ROWS, IDS) - 1) % rows)
    assert [data.example(row).label for row in range(3)] == [0, 1, 0]
    assert len(read_requests("dlrm_v2", tmp_path)) == 3


def test_the_sample_is_read_whole(tmp_path: Path) -> None:
    assert labelled("dlrm_v2", log(tmp_path, end="_sample")).size == 5


def test_clicks_that_score_higher_are_a_whole_area() -> None:
    metric = metric_named("AUC")
    rows = [metric.row([np.array([score])], click) for score, click in ((0.1, 0), (0.9, 1), (0.4, 0), (0.4, 1))]
    assert metric.values(rows)[0] == pytest.approx(3.5 / 4)  # pairs in order, a tie counts half
    assert metric.values([*rows[1:3], metric.wrong(1) or []])[0] == pytest.approx(1 / 2)
    assert np.isnan(metric.values(rows[:1])[0])
    with pytest.raises(ValueError, match="click is 2"):
        metric.row([np.array([0.5])], 2)


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def saved(name: str, array: Any) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, array)


def compressed(folder: Path) -> None:
    with np.load(folder / IDS_FILE) as arrays:
        np.savez_compressed(folder / IDS_FILE, **dict(arrays))


def packed(**arrays: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        with np.load(folder / IDS_FILE) as before:
            content = dict(before) | arrays
        np.savez(folder / IDS_FILE, **{key: array for key, array in content.items() if array is not None})

    return write


def archive_for_array(folder: Path) -> None:
    np.savez(folder / "x.npz", np.zeros(5))
    (folder / "x.npz").rename(folder / DENSE)


def empty_archive(folder: Path) -> None:
    with zipfile.ZipFile(folder / IDS_FILE, "w"):
        pass


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (without(DENSE), "day_23_dense.npy is not there"),
        (without(IDS_FILE), "day_23_sparse_multi_hot.npz is not there"),
        (without(LABELS), "day_23_labels.npy is not there"),
        (saved(DENSE, np.zeros((5, 12), np.float32)), r"dense is float32 \[5, 12\], not float32 \[5, 13\]"),
        (saved(DENSE, np.zeros((4, 13), np.float32)), r"dense is float32 \[4, 13\]"),
        (saved(DENSE, np.array([{}])), "day_23_dense.npy cannot be read"),
        (archive_for_array, "day_23_dense.npy cannot be read"),
        (saved(LABELS, np.zeros(5, np.int32)), r"labels is int32 \[5\], not int32 \[5, 1\]"),
        (saved(LABELS, np.full((5, 1), 0.5)), r"labels is float64 \[5, 1\], not int32"),
        (saved(LABELS, np.zeros((0, 1), np.int32)), r"not float32 \[0, 13\]"),
        (lambda folder: (folder / LABELS).write_bytes(b"\x93NUMPY\x01"), "day_23_labels.npy cannot be read"),
        (compressed, "0.npy is compressed"),
        (empty_archive, "no item named '0.npy'"),
        (lambda folder: (folder / IDS_FILE).write_bytes(b"PK"), "not a zip file"),
        (packed(**{"7": None}), "no item named '7.npy'"),
        (packed(**{"7": np.zeros((5, 1))}), r"sparse_multi_hot 7 is float64 \[5, 1\], not int32"),
        (packed(**{"7": np.zeros((4, 1), np.int32)}), r"sparse_multi_hot 7 is int32 \[4, 1\]"),
        (packed(**{"7": np.zeros(5, np.int32)}), r"7.npy is int32 \[5\], not a table"),
        (packed(**{"7": np.zeros((5, 2), np.int32)}), "the fields have"),
    ],
)
def test_what_is_wrong_names_the_file(tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(log(tmp_path))
    with pytest.raises(InputDataError, match=said) as caught:
        labelled("dlrm_v2", tmp_path)
    assert "materialize" in str(caught.value.fix)
    assert "DATA_ROOT/criteo/" in str(caught.value.fix)
