"""Arrays as values of a datatype, and in files."""

from pathlib import Path

import numpy as np
import pytest

from servemark.workload.tensor import elements, read_npz, whole_numbers, write_npz


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_fractions_are_no_whole_numbers_whatever_their_datatype(kind: type[np.generic]) -> None:
    assert whole_numbers(np.array([1, 2], kind), "INT64").tolist() == [1, 2]
    for wrong in (1.5, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"{wrong} is not INT64"):
            whole_numbers(np.array([1, wrong], kind), "INT64")


def test_a_tensor_may_have_the_name_of_an_option_of_numpy_s(tmp_path: Path) -> None:
    arrays = {"file": np.arange(3), "allow_pickle": np.zeros((2, 0)), "texts": np.array([b"a", b""], np.object_)}
    write_npz(tmp_path / "a.npz", arrays)
    read = read_npz(tmp_path / "a.npz")
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(elements(read[name]), array)
