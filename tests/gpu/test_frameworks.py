"""Frameworks on an NVIDIA GPU: parity, CUDA graphs, tensors on the device, serving there. `make test-gpu`."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exporters
from exporters.pipeline.registry import exporter
from servemark.figures.registry import count_of, value_of
from servemark.repository.entry import Entry
from servemark.workload import Arrays, Engine, get
from servemark.workload.agreement import compare_outputs
from servers.engines import load_engine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(240)]
ENGINES = ("onnxruntime", "pytorch", "tensorflow")
ONE_OF_EACH_KIND = ("resnet50_tiny", "ranking_tiny", "deepspeech2_tiny", "transformer_tiny", "ssd300_tiny")
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


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repository")


def exported(repository: Path, name: str, engine: str, precision: str = "fp32") -> Entry:
    """Export in another process: here an exporter would keep TensorFlow off the GPU for good."""
    command = [sys.executable, "-m", "servemark", "export", name, "--engine", engine, "--precision", precision]
    subprocess.run([*command, "--model-repository", str(repository)], timeout=200, check=True)
    return Entry(repository, name, engine, precision)


def loaded(entry: Entry, **options: str) -> Any:
    workload = get(entry.workload)
    return load_engine(
        entry.engine,
        entry.version / exporter(entry.engine).ARTIFACT,
        inputs=[tensor.name for tensor in workload.inputs],
        outputs=[tensor.name for tensor in workload.outputs],
        device="cuda:0",
        options=options,
    )


def check(engine: Engine, entry: Entry, sizes: tuple[int, ...]) -> None:
    workload, golden = get(entry.workload), entry.read_golden()
    assert golden is not None
    for size in sizes:
        answer = engine.run({name: array[:size] for name, array in golden.inputs.items()})
        for tensor in workload.outputs:
            found = compare_outputs(
                answer[tensor.name], golden.outputs[tensor.name][:size], workload.agreement.at(entry.precision)
            )
            assert found.agrees, f"{tensor.name} at batch {size}: {found}"


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
    command = [sys.executable, "-m", "servemark", "run", "ranking_tiny", "--engine", engine, "--device", "cuda:0"]
    command += ["--instances", instances, "--model-repository", str(repository), "--out", str(tmp_path), "--json"]
    command += ["--duration", "5", "--concurrency", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    result = json.loads(done.stdout)
    assert (result["engine"], result["device"]) == (engine, "cuda:0"), done.stderr
    assert value_of(result, "errors.count") == 0
    assert count_of(result, "outputs.checked") > 0
