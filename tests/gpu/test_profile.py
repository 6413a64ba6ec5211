"""Operators on an NVIDIA GPU have the times of their kernels. `make test-gpu`."""

from pathlib import Path

import pytest

from servemark.profiling import measure
from servemark.profiling.document import engine_profile
from servemark.profiling.measure import Order
from tests.gpu.engines import exported

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(240)]


@pytest.mark.parametrize("engine", ["onnxruntime", "pytorch"])
@pytest.mark.parametrize("workload", ["resnet50_tiny", "transformer_tiny"])
def test_kernels_of_operators(engine: str, workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {"onnxruntime", engine}:
        exported(tmp_path, workload, name)
    monkeypatch.setattr(measure, "ROUNDS", (3, 3))
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    found = measure.measure(Order(workload, engine, tmp_path, batch_size=2, device="cuda:0"))
    profile = engine_profile(engine, found, None)
    assert profile["told_share"] is not None
    assert 0 < profile["told_share"] < 1
    products = [each for each in profile["layers"] if each["category"] in {"convolution", "gemm"}]
    assert all(each["ms"] > 0 for each in products)
    # What no operator launched: copies of inputs and outputs at the most.
    assert not [name for name in profile["unknown_operators"] if not name.startswith("Mem")]
