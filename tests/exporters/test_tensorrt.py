"""TensorRT without a GPU: profiles, configuration, the build's steps in TensorRT-RTX's builder, and clear errors."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from exporters import tensorrt
from exporters.pipeline import config_pbtxt
from exporters.pipeline.job import Job, Origin
from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.frameworks.tensorrt import logger
from servemark.repository.entry import Entry, Golden
from servemark.repository.model_config import parse
from servemark.workload import get, registry
from servers.engines import load_engine
from tests.support.zoo import tiny_of

if TYPE_CHECKING:
    from tests.support.exporting import Exports

pytestmark = pytest.mark.filterwarnings("ignore:Use Deprecated in TensorRT-RTX:DeprecationWarning")  # TensorRT has it


@pytest.mark.parametrize("name", [*registry.names()])
def test_a_profile_covers_every_request_of_the_workload(name: str) -> None:
    workload = tiny_of(name)
    ranges = tensorrt.profile(workload)
    assert list(ranges) == [tensor.name for tensor in workload.inputs]
    samples = workload.samples(np.random.default_rng(5))
    for _ in range(20):
        sample = next(samples)
        for tensor in workload.inputs:
            smallest, typical, largest = ranges[tensor.name]
            assert (smallest[0], largest[0]) == (1, workload.max_batch)
            assert all(np.diff([smallest, typical, largest], axis=0).ravel() >= 0)
            for size, low, high in zip(sample[tensor.name].shape, smallest[1:], largest[1:], strict=True):
                assert low <= size <= high


def test_the_configuration_puts_the_model_on_the_gpu() -> None:
    workload = get("resnet50")
    text = config_pbtxt.render(
        workload,
        model="resnet50_tensorrt",
        engine="tensorrt",
        artifact=tensorrt.ARTIFACT,
        device=tensorrt.DEVICE,
    )
    found = parse(text)
    (group,) = found.instance_group
    assert (found.backend, found.default_model_filename) == ("tensorrt", "model.plan")
    assert (group.kind, list(group.gpus), group.count) == (group.KIND_GPU, [0], 1)


def test_the_engine_refuses_a_cpu_and_a_machine_without_tensorrt(tmp_path: Path) -> None:
    artifact = tmp_path / "model.plan"
    artifact.write_bytes(b"plan")
    names: dict[str, Any] = {"inputs": ["x"], "outputs": ["y"]}
    with pytest.raises(ServerError, match="NVIDIA GPUs only"):
        load_engine("tensorrt", artifact, device="cpu", **names)
    with pytest.raises(OptionError, match="cuda_graph is 'maybe'"):
        load_engine("tensorrt", artifact, device="cuda:0", options={"cuda_graph": "maybe"}, **names)
    if not torch.cuda.is_available():
        with pytest.raises(ServerError, match=r"TensorRT (cannot be used|needs an NVIDIA GPU)"):
            load_engine("tensorrt", artifact, device="cuda:0", **names)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch, exported: "Exports") -> Any:
    """TensorRT-RTX in the place of TensorRT, whose builder needs a GPU: here one is only described."""
    module = pytest.importorskip("tensorrt_rtx_bindings")
    exported("ranking_tiny", "onnxruntime")  # which would ask the GPU that is only described
    monkeypatch.setitem(sys.modules, "tensorrt", module)
    logger.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    yield module
    logger.cache_clear()


def job(tmp_path: Path, exported: "Exports", precision: str = "fp32") -> Job:
    draft = Entry(tmp_path / ".export-1-x", "ranking_tiny", "tensorrt")
    draft.version.mkdir(parents=True)
    source = Origin(exported("ranking_tiny", "onnxruntime").version / "model.onnx", Golden({}, {}))
    return Job(get("ranking_tiny"), precision, draft.version / "model.plan", lambda: source, None)


def test_a_build_keeps_its_log_and_its_timings_for_the_next(tmp_path: Path, exported: "Exports", builder: Any) -> None:
    written = tensorrt.write(job(tmp_path, exported))
    path = tmp_path / ".export-1-x" / "ranking_tiny_tensorrt"
    assert (path / "1" / "model.plan").stat().st_size > 1_000_000
    assert [file.name for file in (path / "1").iterdir()] == ["model.plan"]
    assert "Engine generation completed" in (path / "build.log").read_text()
    timings = tmp_path / ".tensorrt" / f"NVIDIA_H200-{builder.__version__}.timing"
    assert timings.stat().st_size > 0
    ranges = tensorrt.profile(get("ranking_tiny"))
    assert written.items() >= {"tensorrt": builder.__version__, "gpu": "NVIDIA H200", "profile": ranges}.items()
    assert int(str(written["layers"])) > 10
    (path / "1").rename(path / "old")
    tensorrt.write(job(tmp_path, exported))
    assert [*timings.parent.iterdir()] == [timings]


@pytest.mark.usefixtures("builder")
def test_damaged_timings_are_measured_anew(tmp_path: Path, exported: "Exports") -> None:
    asked = job(tmp_path, exported)
    tensorrt.write(asked)
    (file,) = (tmp_path / ".tensorrt").iterdir()
    whole = file.read_bytes()
    file.write_bytes(b"damaged")
    tensorrt.write(asked)
    assert file.read_bytes()[:8] == whole[:8]


@pytest.mark.parametrize("refused", ["create_timing_cache", "set_timing_cache"])
def test_timings_that_tensorrt_refuses_are_left_out(tmp_path: Path, refused: str) -> None:
    """They may be of another driver."""
    (tmp_path / "timings").write_bytes(b"of another")
    given: list[bytes] = []

    def create(content: bytes) -> Any:
        given.append(content)
        return None if content and refused == "create_timing_cache" else object()

    config: Any = SimpleNamespace(
        create_timing_cache=create, set_timing_cache=lambda *_: refused == "create_timing_cache" or not given[-1]
    )
    tensorrt._timings(config, tmp_path / "timings")
    assert given == [b"of another", b""]


@pytest.mark.usefixtures("builder")
def test_a_profile_that_tensorrt_refuses_ends_the_export(
    tmp_path: Path, exported: "Exports", monkeypatch: pytest.MonkeyPatch
) -> None:
    upside_down = {name: (high, low, low) for name, (low, _, high) in tensorrt.profile(get("ranking_tiny")).items()}
    monkeypatch.setattr(tensorrt, "profile", lambda _: upside_down)
    with pytest.raises(ArtifactError, match="does not take the profile"):
        tensorrt.write(job(tmp_path, exported))


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The precisions in which networks have been made."""
    asked: list[str] = []

    def network_file(job: Job, _: Path) -> tuple[Path, dict[str, object]]:
        asked.append(job.precision)
        return job.origin, {}

    monkeypatch.setattr(tensorrt, "network_file", network_file)
    return asked


@pytest.fixture
def capability(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The compute capability of the GPU, which a test's parameters name."""
    major, minor = request.param
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (major, minor))
    return major, minor


@pytest.mark.parametrize(
    ("precision", "capability"), [("bf16", (7, 5)), ("fp8", (7, 5)), ("fp8", (8, 6))], indirect=["capability"]
)
def test_a_gpu_without_a_precision_is_refused_before_anything_is_made(
    tmp_path: Path,
    exported: "Exports",
    builder: Any,  # noqa: ARG001 - below the GPU of the parameters
    converted: list[str],
    precision: str,
    capability: tuple[int, int],
) -> None:
    wanted = rf"NVIDIA H200 has no {precision}: its compute capability is {capability[0]}\.{capability[1]}"
    with pytest.raises(ArtifactError, match=wanted) as error:
        tensorrt.write(job(tmp_path, exported, precision))
    assert precision not in str(error.value.fix)
    assert not converted


@pytest.mark.usefixtures("builder", "capability")
@pytest.mark.parametrize(
    ("precision", "capability"),
    [("fp16", (7, 5)), ("int8", (7, 5)), ("bf16", (8, 0)), ("fp8", (8, 9)), ("fp8", (9, 0))],
    indirect=["capability"],
)
def test_a_gpu_with_a_precision_gets_its_plan(
    tmp_path: Path, exported: "Exports", converted: list[str], precision: str
) -> None:
    asked = job(tmp_path, exported, precision)
    tensorrt.write(asked)
    assert converted == [precision]
    assert asked.path.is_file()


def one_node(path: Path, operator: str, domain: str = "") -> Path:
    """A model of one node from one picture to another."""
    sizes: list[str | int | None] = ["batch", 3, 8, 8]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in ("X", "Y")]
    graph = helper.make_graph([helper.make_node(operator, ["X"], ["Y"], domain=domain)], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("of.nobody", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


@pytest.mark.usefixtures("builder")
def test_what_tensorrt_cannot_read_or_build_is_said_in_its_words(
    tmp_path: Path, exported: "Exports", monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = job(tmp_path, exported)
    file = one_node(tmp_path / "unknown.onnx", "Whirl", "of.nobody")
    monkeypatch.setattr(tensorrt, "network_file", lambda *_: (file, {}))
    with pytest.raises(ArtifactError, match=r"cannot read ranking_tiny: .*Whirl"):
        tensorrt.write(asked)
    other = one_node(tmp_path / "relu.onnx", "Relu")  # to which the workload's profile does not belong
    monkeypatch.setattr(tensorrt, "network_file", lambda *_: (other, {}))
    with pytest.raises(ArtifactError, match=r"cannot build ranking_tiny: ERROR: .*profile"):
        tensorrt.write(asked)
    assert not asked.path.exists()
