"""MLPerf Inference's workloads held against what the reference documents, and LoadGen's settings of the round."""

from itertools import pairwise

import pytest
import torch

from servemark import workload
from servemark.models import dlrm_v2, unet3d
from servemark.workload.suites import BY_NAME, labels_of
from servemark.workload.suites.mlperf_inference import LABEL, WORKLOADS, settings_of
from tests.support.command_line import Servemark

BERT = "transformers/google-bert/bert-large-uncased-whole-word-masking-finetuned-squad"
WHISPER = "transformers/openai/whisper-large-v3"


def test_bert_has_the_reference_s_inputs_answers_and_parameters() -> None:
    """BERT-large without a pooler, and two numbers for each of 384 places (language/bert: bert_config.json)."""
    width, layers, inner = 1024, 24, 4096
    embeddings = (30_522 + 512 + 2) * width + 2 * width
    layer = 4 * (width * width + width) + 2 * width * inner + inner + width + 4 * width
    found = workload.get(BERT)
    assert found.parameters == embeddings + layers * layer + 2 * width + 2
    assert [(t.name, t.datatype, t.shape) for t in found.inputs] == [
        ("input_ids", "INT64", (384,)),
        ("attention_mask", "INT64", (384,)),
        ("token_type_ids", "INT64", (384,)),
    ]
    assert [(t.name, t.shape) for t in found.outputs] == [("start_logits", (384,)), ("end_logits", (384,))]
    assert found.suites == ("transformers", LABEL)


def test_whisper_s_encoder_has_the_reference_s_shape_and_parameters() -> None:
    """Thirty seconds of 128 mel channels (speech2text); keys have no bias, and places are no parameters to learn."""
    width, layers, inner, mels, places = 1280, 32, 5120, 128, 1500
    stem = 3 * mels * width + width + 3 * width * width + width + places * width
    layer = 4 * width * width + 3 * width + 2 * width * inner + inner + width + 4 * width
    found = workload.get(WHISPER)
    assert found.parameters == stem + layers * layer + 2 * width
    assert (found.inputs[0].shape, found.outputs[0].shape) == ((mels, 3000), (places, width))


def test_the_u_net_has_the_reference_s_parameters() -> None:
    """vision/medical_imaging/3d-unet-kits19: filters 32 to 320 and a bottleneck of 320, norms with scale and shift."""
    channels = (32, 64, 128, 256, 320, 320)
    wanted = 27 * (1 * 32 + 32 * 32) + 4 * 32
    for above, below in pairwise(channels):
        wanted += 27 * (above * below + below * below) + 4 * below  # down
        wanted += 8 * below * above + above + 27 * (2 * above * above + above * above) + 4 * above  # and up
    wanted += 32 * 3 + 3
    found = workload.get("unet3d")
    with torch.device("meta"):
        made = unet3d.network(unet3d.FULL)
    assert found.parameters == sum(each.numel() for each in made.parameters()) == wanted
    assert (found.inputs[0].shape, found.outputs[0].shape) == ((1, 128, 128, 128), (3, 128, 128, 128))


def test_dlrm_has_the_reference_s_layers_and_a_stated_share_of_its_tables() -> None:
    """recommendation/dlrm_v2: sizes of main.py, and 97.31 GB (2^30) of weights in its README."""
    pairs = [(13, 512), (512, 256), (256, 128), *[(3456, 512), (512, 3456)] * 3]
    pairs += [(3456, 1024), (1024, 1024), (1024, 512), (512, 256), (256, 1)]
    layers = sum(a * b for a, b in pairs) + sum(b for _, b in pairs) - 3 * 512
    assert (sum(dlrm_v2.IDS), len(dlrm_v2.ROWS)) == (214, 26)
    assert (sum(dlrm_v2.ROWS) * 128 + layers) * 4 / 2**30 == pytest.approx(97.31, rel=0.002)
    found = workload.get("dlrm_v2")
    assert found.parameters == sum(dlrm_v2.FULL.rows) * 128 + layers
    assert sum(dlrm_v2.FULL.rows) / sum(dlrm_v2.ROWS) == pytest.approx(0.0123, abs=1e-4)
    assert found.flops == 2 * sum(a * b for a, b in pairs)


def test_the_round_s_settings_are_found_by_the_name_in_paths() -> None:
    found = settings_of(workload.get(BERT).name)
    assert found is not None
    assert (str(found.bound), found.samples) == ("p99:130", 10_833)
    assert [found.queries(scenario) for scenario in ("SingleStream", "MultiStream", "Server", "Offline")] == [
        100, 662, 100, 10_833,
    ]  # fmt: skip
    assert settings_of("resnet18") is None
    assert WORKLOADS[WHISPER].bound is None


@pytest.mark.parametrize("suite", BY_NAME)
def test_a_suite_of_names_labels_its_workloads_and_none_twice(suite: str) -> None:
    label, names = BY_NAME[suite]
    assert len(set(names)) == len(names)
    for name in names:
        assert label in labels_of(name.replace("/", "--"))


def test_official_settings_are_the_round_s_and_nobody_else_s(servemark: Servemark) -> None:
    common = ("--scenario", "Offline", "--official")
    code, _, err = servemark("mlperf", "resnet50", *common, "--min-queries", "7")
    assert (code, "brings its own --min-duration" in err) == (3, True)
    code, _, err = servemark("mlperf", "ranking", *common)
    assert (code, f"ranking is not of {LABEL}" in err) == (3, True)
