"""Either TensorRT on an NVIDIA GPU: build, parity, serving through Triton, the comparison. `make test-gpu`."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import exporters
from exporters.tensorrt import MIN_CAPABILITY
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry
from servemark.workload import get
from tests.gpu.engines import ONE_OF_EACH_KIND, SERVEMARK, check, loaded, served
from tools.gpu_session import unusable

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(240)]
IMPOSSIBLE = {(name, precision) for name in ("deepspeech2_tiny", "ssd300_tiny") for precision in ("int8", "fp8")}
"""Most of the one's weights are recurrent; the other's boxes, of random weights, do not survive 8 bits."""


@pytest.fixture(params=["tensorrt", "tensorrt_rtx"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def buildable(precision: str) -> None:
    """Skip what this GPU has no instructions for."""
    import torch

    capability = torch.cuda.get_device_capability(0)
    if capability < MIN_CAPABILITY.get(precision, (0, 0)):
        pytest.skip(f"compute capability {capability} has no {precision}")


@pytest.mark.parametrize("precision", exporters.precisions("tensorrt"))
@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_a_plan_is_built_within_its_agreement(repository: Path, engine: str, name: str, precision: str) -> None:
    buildable(precision)
    if (name, precision) in IMPOSSIBLE:
        with pytest.raises(ArtifactError, match=r"of the weights|differs from eager PyTorch"):
            exporters.export(get(name), engine, repository, precision=precision)
        return
    report = exporters.export(get(name), engine, repository, precision=precision)
    assert report.manifest["format"]["layers"] > 0
    assert (report.folder / "build.log").is_file()
    assert exporters.export(get(name), engine, repository, precision=precision).up_to_date


@pytest.mark.parametrize("graphs", ["false", "true"])
@pytest.mark.parametrize("precision", exporters.precisions("tensorrt"))
def test_every_batch_size_answers_like_the_golden_samples(
    repository: Path, engine: str, precision: str, graphs: str
) -> None:
    buildable(precision)
    workload = get("resnet50_tiny")
    exporters.export(workload, engine, repository, precision=precision)
    entry = Entry(repository, workload.name, engine, precision)
    gpu = loaded(entry, cuda_graph=graphs)
    check(gpu, entry, (1, 2, 5, 1, 2))
    assert gpu.device == "cuda:0"


def test_triton_serves_a_plan_and_says_where(repository: Path, engine: str, tmp_path: Path) -> None:
    exporters.export(get("resnet50_tiny"), engine, repository)
    result = served("resnet50_tiny", engine, repository, tmp_path)
    assert result["details"]["energy"]["boundary"] == "gpu_board"


def test_tensorrt_is_compared_with_framework_inference(repository: Path, tmp_path: Path) -> None:
    usable = [engine for engine in ("tensorrt", "tensorrt_rtx", "pytorch", "onnxruntime") if unusable(engine) is None]
    command = [*SERVEMARK, "compare", "resnet50_tiny", "--engines", ",".join(usable)]
    command += ["--device", "cuda:0", "--model-repository", str(repository), "--out", str(tmp_path), "--json"]
    done = subprocess.run([*command, "--duration", "3"], capture_output=True, text=True, timeout=200, check=False)
    comparison = json.loads(done.stdout)
    assert [row["engine"] for row in comparison["rows"]] == usable, done.stderr
    assert {row["device"] for row in comparison["rows"]} == {"cuda:0"}


def test_several_instances_run_side_by_side(repository: Path, engine: str) -> None:
    workload = get("ranking_tiny")
    exporters.export(workload, engine, repository)
    entry = Entry(repository, workload.name, engine)
    golden = entry.read_golden()
    assert golden is not None
    engines = [loaded(entry), loaded(entry)]
    one, other = (each.run(dict(golden.inputs)) for each in engines)
    for tensor in workload.outputs:
        np.testing.assert_array_equal(one[tensor.name], other[tensor.name])
