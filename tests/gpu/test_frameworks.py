"""Frameworks on an NVIDIA GPU: parity, CUDA graphs, tensors on the device, serving there. `make test-gpu`."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import exporters
from servemark.workload import Arrays
from tests.gpu.engines import ONE_OF_EACH_KIND, check, exported, loaded, served

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(240)]
ENGINES = ("onnxruntime", "pytorch", "tensorflow")
PRECISIONS = [
    (engine, precision)
    for engine in ENGINES
    for precision in ("fp32", "fp16")
    if precision in exporters.precisions(engine)
]
IMPOSSIBLE = {("ssd300_tiny", "pytorch", "fp16")}
"""Its boxes, of random weights, do not survive 16 bits, nor do they on the CPU: the export is refused."""


def _tensorrt_10() -> bool:
    """Return True if the library exists that ONNX Runtime's provider is built for; pip's tensorrt is 11 by now."""
    try:
        ctypes.CDLL("libnvinfer.so.10")
    except OSError:
        return False
    return True


NEEDS_TENSORRT_10 = pytest.mark.skipif(not _tensorrt_10(), reason="there is no libnvinfer.so.10")


@pytest.mark.parametrize(
    ("name", "engine", "precision"),
    [case for name in ONE_OF_EACH_KIND for pair in PRECISIONS if (case := (name, *pair)) not in IMPOSSIBLE],
)
def test_answers_on_the_gpu_agree_with_the_cpus(repository: Path, name: str, engine: str, precision: str) -> None:
    entry = exported(repository, name, engine, precision)
    gpu = loaded(entry)
    assert gpu.device == "cuda:0"
    check(gpu, entry, (1, 2, 5, 1))


@pytest.mark.parametrize(
    ("engine", "options", "provider"),
    [
        ("onnxruntime", {"cuda_graph": "true"}, "CUDAExecutionProvider with CUDA graphs"),
        pytest.param(
            "onnxruntime", {"execution_accelerator": "tensorrt"}, "TensorrtExecutionProvider", marks=NEEDS_TENSORRT_10
        ),
        ("tensorflow", {"jit_compile": "true"}, "GPU:0 XLA"),
        ("pytorch", {"compile": "true"}, "torch.compile(inductor)"),
        ("pytorch", {"compile": "true", "cuda_graph": "true"}, "torch.compile(inductor) with CUDA graphs"),
    ],
)
def test_options_of_the_gpu_change_no_answer(
    repository: Path, engine: str, options: dict[str, str], provider: str
) -> None:
    entry = exported(repository, "resnet50_tiny", engine)
    gpu = loaded(entry, **options)
    assert gpu.provider.partition(" (")[0] == provider  # behind it: how many operators are on the CPU
    check(gpu, entry, (1, 2, 5, 1, 2))


@pytest.mark.parametrize("engine", ENGINES)
def test_device_tensors_stay_on_the_device(repository: Path, engine: str) -> None:
    import torch

    entry = exported(repository, "ranking_tiny", engine)
    golden = entry.read_golden()
    assert golden is not None
    inputs: Arrays = {name: array[:4] for name, array in golden.inputs.items()}
    gpu = loaded(entry)
    answer = gpu.run_tensors({name: torch.from_numpy(array).cuda() for name, array in inputs.items()})
    assert {tensor.device for tensor in answer.values()} == {torch.device("cuda:0")}
    for name, array in gpu.run(inputs).items():
        np.testing.assert_allclose(answer[name].cpu().numpy(), array, rtol=1e-4)


@pytest.mark.parametrize("instances", ["1", "2"])
@pytest.mark.parametrize("engine", ENGINES)
def test_triton_serves_it_and_says_where(repository: Path, tmp_path: Path, engine: str, instances: str) -> None:
    exported(repository, "ranking_tiny", engine)
    flags = ("--device", "cuda:0", "--instances", instances)
    assert served("ranking_tiny", engine, repository, tmp_path, *flags)["device"] == "cuda:0"
