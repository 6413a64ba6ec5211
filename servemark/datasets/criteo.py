"""Criteo's terabyte of advertisements: the last day, as MLPerf's reference for DLRM-v2 lays it out.

`day_23_dense.npy` [N, 13] FP32 (logarithms of counts), `day_23_sparse_multi_hot.npz` (arrays "0" to "25", [N, k] INT32)
and `day_23_labels.npy` [N, 1]: what the reference's program tools/materialize_synthetic_multihot_dataset.py makes
(mlcommons/inference, recommendation/dlrm_v2). The benchmark asks for the first half of that day. Criteo gives
a sample for trying it, too: `day_23_*_sample.*` are read whole. All files are mapped, because the day has 165 GB.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.datasets import Origin
from servemark.errors import InputDataError, reason

KEY = "criteo"
ORIGIN = Origin("ailab.criteo.com, Criteo 1TB click logs for MLPerf", None, "CC BY-NC-SA 4.0")
NUMBERS, FIELDS = 13, 26
FIX = (
    "make it with materialize_synthetic_multihot_dataset.py of mlcommons/inference, recommendation/dlrm_v2/pytorch, "
    f"in DATA_ROOT/{KEY}/"
)
LOCAL_HEADER = 30
"""Bytes of a zip member's own header before its name (APPNOTE 4.3.7)."""


@dataclass(frozen=True)
class Log:
    """Impressions, mapped: numbers [N, 13] FP32, ids of each field [N, k] INT32, and whether each was clicked [N]."""

    numbers: npt.NDArray[np.float32]
    ids: tuple[npt.NDArray[np.int32], ...]
    clicks: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.clicks)


def read(folder: Path) -> Log:
    """Map the last day's files. Raises InputDataError naming the file that is missing or has another layout."""
    whole = (folder / "day_23_labels.npy").exists() or not (folder / "day_23_labels_sample.npy").exists()
    end = "" if whole else "_sample"
    numbers, labels = (_array(folder / f"day_23_{name}{end}.npy") for name in ("dense", "labels"))
    ids = _packed(folder / f"day_23_sparse_multi_hot{end}.npz")
    rows = len(labels) if labels.ndim else 0
    expected: dict[str, tuple[Any, Any, Any]] = {
        "dense": (numbers, (rows, NUMBERS), np.float32),
        "labels": (labels, (rows, 1), np.int32),
    }
    expected |= {
        f"sparse_multi_hot {field}": (array, (rows, *array.shape[1:2]), np.int32) for field, array in ids.items()
    }
    for name, (array, shape, kind) in expected.items():
        if array.shape != shape or array.dtype != kind or not rows:
            raise InputDataError(
                f"{folder}: day_23 {name} is {array.dtype} {list(array.shape)}, not {np.dtype(kind)} {list(shape)}",
                fix=FIX,
            )
    asked = slice((rows + 1) // 2 if whole else rows)
    return Log(numbers[asked], tuple(array[asked] for array in ids.values()), labels[asked, 0])


def _array(path: Path) -> npt.NDArray[Any]:
    npy: Any = np.lib.format  # which has no types; `np.load` would take an .npz of this name
    try:
        array: npt.NDArray[Any] = npy.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, error) from error
    return array


def _packed(path: Path) -> dict[int, npt.NDArray[Any]]:
    """Map the arrays of an .npz file where they lie, which numpy itself would copy into memory."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            return {field: _member(archive.getinfo(f"{field}.npy"), file) for field in range(FIELDS)}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error


def _member(member: zipfile.ZipInfo, file: Any) -> npt.NDArray[Any]:
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is compressed, so it cannot be mapped")
    file.seek(member.header_offset + LOCAL_HEADER - 4)
    name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
    file.seek(name + extra, 1)
    npy: Any = np.lib.format  # which has no types
    version = npy.read_magic(file)
    shape, fortran, kind = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    if kind.hasobject or len(shape) != 2:
        raise ValueError(f"{member.filename} is {kind} {list(shape)}, not a table of integers")
    return np.memmap(file, kind, "r", file.tell(), shape, "F" if fortran else "C")


def _unreadable(path: Path, error: Exception) -> InputDataError:
    if isinstance(error, FileNotFoundError):
        return InputDataError(f"{path} is not there", fix=FIX)
    return InputDataError(f"{path} cannot be read: {reason(error)}", fix=FIX)
