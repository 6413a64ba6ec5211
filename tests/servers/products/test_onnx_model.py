"""The model that runs inside each product's environment, loaded here from beside a job as its application loads it."""

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark.workload import Tensor
from servers.launch.product_server import job
from servers.products import APPS, Deployment, Place
from tests.support.small_models import NAMES, affine, expected

X, OUTPUTS = Tensor("X", "FP32", (8,)), [Tensor(NAMES[0], "FP32", (3,)), Tensor(NAMES[1], "FP32", (1,))]


def loaded(folder: Path, deployment: Deployment) -> Any:
    """The module, beside the deployment's job."""
    shutil.copy(APPS / "onnx_model.py", folder)
    (folder / "job.json").write_text(json.dumps(job(deployment, Place(Path("python"), folder, 1, 2, 3))))
    spec = importlib.util.spec_from_file_location("onnx_model", folder / "onnx_model.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    artifact = affine(tmp_path / "models", "onnxruntime")
    return Deployment("affine", artifact, [X], OUTPUTS, max_batch=8, threads=1, queue_delay_s=0.001)


def test_samples_of_json_are_answered_one_by_one(deployment: Deployment, tmp_path: Path) -> None:
    module = loaded(tmp_path, deployment)
    assert module.BATCHES
    x = np.random.default_rng(1).standard_normal((3, 8), dtype=np.float32)
    # An object of inputs, or the value of the only one.
    answers = module.OnnxModel().answer([{"X": x[0].tolist()}, x[1].tolist(), {"X": x[2].tolist()}])
    for name, wanted in expected(x).items():
        found = np.array([answer[name] for answer in json.loads(json.dumps(answers))])
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_sample_of_another_shape_is_computed_apart(deployment: Deployment, tmp_path: Path) -> None:
    model = loaded(tmp_path, deployment).OnnxModel()
    computed: list[int] = []

    def compute(samples: list[Any]) -> list[dict[str, Any]]:
        computed.append(len(samples))
        return [{}] * len(samples)

    model._computed = compute
    model.answer([[0.0] * 8, [0.0] * 5, [0.0] * 8])
    assert sorted(computed) == [1, 2]
