"""Samples of files with a batch dimension and without, and the sizes that the user has to give."""

from pathlib import Path
from typing import Any

import pytest

from exporters.importing.model_file import (
    DEFAULT_MAX_BATCH,
    OPEN,
    ModelDescription,
    TensorInfo,
    Wishes,
    inputs_of,
    largest_batch,
)
from servemark.errors import ArtifactError, OptionError

FILE = Path("m.onnx")


def of(first: tuple[int, ...], last: tuple[int, ...], **more: Any) -> ModelDescription:
    return ModelDescription((TensorInfo("x", "FP32", first),), (TensorInfo("y", "FP32", last),), {}, **more)


def wishes(**given: Any) -> Wishes:
    return Wishes(lambda _, __: iter(()), **given)


@pytest.mark.parametrize(
    ("found", "wished", "largest"),
    [
        (of((OPEN, 6), (OPEN, 4)), None, DEFAULT_MAX_BATCH),
        (of((OPEN, 6), (OPEN, 4), max_batch=5), None, 5),
        (of((OPEN, 6), (OPEN, 4)), 64, 64),
        (of((OPEN, 6), (OPEN, 4)), 0, 0),
        (of((1, 6), (1, 4)), 8, 1),
        (of((8, 6), (8, 4)), None, 0),
        (of((OPEN, 6), (4,)), None, 0),
    ],
)
def test_the_largest_batch(found: ModelDescription, wished: int | None, largest: int) -> None:
    assert largest_batch(FILE, found, wishes(max_batch=wished))[0] == largest


def test_batches_of_a_file_without_are_refused() -> None:
    with pytest.raises(ArtifactError, match=r"not a batch: x FP32\[8,6\], y FP32\[8,4\]") as error:
        largest_batch(FILE, of((8, 6), (8, 4)), wishes(max_batch=4))
    assert "--max-batch 0" in str(error.value.fix)


@pytest.mark.parametrize("found", [of((OPEN, 6), ()), of((), (OPEN, 6))])
def test_beside_a_tensor_without_a_dimension_a_request_is_one_sample(found: ModelDescription) -> None:
    largest, why = largest_batch(FILE, found, wishes())
    assert largest == 0
    assert str(why).endswith("FP32[] has no dimension for a batch")
    with pytest.raises(ArtifactError, match="its first dimension is not a batch"):
        largest_batch(FILE, found, wishes(max_batch=8))
    if found.inputs[0].sizes:
        with pytest.raises(OptionError) as error:
            inputs_of(FILE, found, wishes(), batched=False)
        assert "--max-batch" not in str(error.value.fix), "it would be refused"


def test_the_tensor_that_fixes_one_is_named() -> None:
    assert largest_batch(FILE, of((OPEN, 6), (1,)), wishes()) == (1, "the file fixes 1 as the first size of y FP32[1]")


def test_open_sizes_without_a_batch() -> None:
    found = of((OPEN, 6), (4,))
    with pytest.raises(OptionError, match=r"leaves sizes open: x FP32\[\?,6\]") as error:
        inputs_of(FILE, found, wishes(), batched=False)
    assert "import PATH --shape x:224,6  # 224 stands for your sizes; --max-batch 32 if the first" in str(
        error.value.fix
    )
    [taken] = inputs_of(FILE, found, wishes(shapes={"x": (9, 6)}), batched=False)
    assert taken["shape"] == [9, 6]
