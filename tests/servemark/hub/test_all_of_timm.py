"""Every classifier of timm that the memory holds: right (passed), refused with a reason (skipped) or wrong (failed).

`python -m pytest -m slow tests/servemark/hub/test_all_of_timm.py -rs` counts them, in hours.
"""

import itertools
from pathlib import Path

import numpy as np
import psutil
import pytest

import exporters
from servemark import workload
from servemark.errors import ServemarkError
from servemark.repository.entry import Entry
from servemark.workload.agreement import compare_outputs
from tests.support.exporting import run_artifact

timm = pytest.importorskip("timm")
torch = pytest.importorskip("torch")
COPIES = 8
"""Weights in fp32 that an export holds at its worst: the network, its program, the ONNX file and the session."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("model", timm.list_models())
def test_any_classifier_of_timm_is_right_or_refused(model: str, tmp_path: Path) -> None:
    try:
        found = workload.get(f"timm/{model}")
        if COPIES * 4 * (found.parameters or 0) > psutil.virtual_memory().available:
            pytest.skip(f"memory: {found.parameters:,} parameters")
        exporters.export(found, "onnxruntime", tmp_path / "repository")
    except ServemarkError as error:
        pytest.skip(f"refused: {error.what}")
    fresh = found.request(list(itertools.islice(found.samples(np.random.default_rng(5)), 2)))
    answer = run_artifact(Entry(tmp_path / "repository", found.name, "onnxruntime"), fresh)
    with torch.no_grad():
        wanted = found.build()(*(torch.from_numpy(fresh[tensor.name]) for tensor in found.inputs)).numpy()
    agreement = compare_outputs(answer["logits"], wanted, found.agreement)
    assert agreement.agrees, agreement
