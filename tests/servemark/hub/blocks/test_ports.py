"""Sizes of a library's inputs: the user's where the model takes them, an error with what to do where it does not."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from servemark import workload
from servemark.errors import OptionError
from servemark.hub.blocks import description as hub
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.hub_folders import write_folder


def test_a_text_is_as_long_as_is_asked_for(tmp_path: Path) -> None:
    hub.imported(write_folder("deberta", tmp_path), "mine", {"input_ids": (24,)}, force=False)
    found = workload.get("mine")
    assert {tensor.name: tensor.shape for tensor in found.inputs} == {"input_ids": (24,), "attention_mask": (24,)}
    assert found.outputs[0].shape == (24, 32)
    drawn = [sample["attention_mask"].sum() for sample in itertools.islice(found.samples(np.random.default_rng(0)), 50)]
    assert (min(drawn) >= 8, max(drawn)) == (True, 24)


def test_a_model_is_imported_by_its_name_with_other_sizes(servemark: Servemark) -> None:
    told = servemark("import", "timm/tinynet_e", "--name", "larger", "--shape", "image:3,224,224")
    assert (told.code, "image FP32[3, 224, 224]" in told.err) == (0, True)


@pytest.mark.parametrize(
    ("model", "shape", "words"),
    [
        ("bert", {"input_ids": (41,)}, "the model has positions for 40 ids"),
        ("roberta", {"input_ids": (39,)}, "the model has positions for 38 ids"),
        ("bert", {"attention_mask": (12,)}, "'attention_mask' is not an input with a size of its own"),
        ("bert", {"input_ids": (2, 12)}, "it has 1 sizes from 1 on"),
        ("bert", {"input_ids": (0,)}, "it has 1 sizes from 1 on"),
        ("vit", {"pixel_values": (3, 48, 48)}, "the network does not take pixel_values[3, 48, 48]: ValueError"),
    ],
)
def test_sizes_that_a_model_does_not_take_are_refused(
    model: str, shape: dict[str, tuple[int, ...]], words: str, tmp_path: Path
) -> None:
    path = write_folder(model, tmp_path)
    with pytest.raises(OptionError, match=re.escape(words)) as caught:
        hub.imported(path, "mine", shape, force=False)
    assert caught.value.fix


def test_options_of_model_files_are_refused_for_a_librarys_model(servemark: Servemark, tmp_path: Path) -> None:
    told = servemark("import", str(write_folder("bert", tmp_path)), "--input-range", "input_ids:0:9")
    assert (told.code, "--input-range is for model files" in told.err) == (BAD_INPUT, True)
