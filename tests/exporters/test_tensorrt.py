"""TensorRT without a GPU: profiles, configuration, the build's steps against a stand-in, and clear errors."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from exporters import tensorrt
from exporters.pipeline import config_pbtxt
from exporters.pipeline.job import Job, Origin
from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.repository.entry import Entry, Golden
from servemark.repository.model_config import parse
from servemark.workload import get, registry
from servers.engines import load_engine
from tests.support.zoo import tiny_of


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


class Calls:
    """Stands for any TensorRT object: remembers what was called on it, and answers what the test says."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.__dict__.update(answers=answers, calls=[], num_layers=3)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return self.answers.get(name)

        return call


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A `tensorrt` that builds nothing; every object it hands out is in its namespace."""
    cache = SimpleNamespace(serialize=lambda: b"timings")
    build = Calls({"create_timing_cache": cache, "set_timing_cache": True, "add_optimization_profile": 0})
    shapes, network = Calls({}), Calls({})
    builder = Calls(
        {
            "create_network": network,
            "create_builder_config": build,
            "create_optimization_profile": shapes,
            "build_serialized_network": b"a plan",
        }
    )
    parser = SimpleNamespace(parse_from_file=lambda _: True, num_errors=1, get_error=lambda _: "no kernel for Loop")
    trt = SimpleNamespace(
        __version__="11.4",
        Builder=lambda _: builder,
        OnnxParser=lambda _network, _logger: parser,
        NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=1),
        MemoryPoolType=SimpleNamespace(WORKSPACE="workspace"),
        BuilderFlag=SimpleNamespace(TF32="tf32"),
        ProfilingVerbosity=SimpleNamespace(DETAILED="detailed"),
        made=SimpleNamespace(builder=builder, build=build, shapes=shapes, parser=parser, cache=cache),
    )
    monkeypatch.setitem(sys.modules, "tensorrt", trt)
    monkeypatch.setattr(tensorrt, "require_tensorrt", lambda: None)
    monkeypatch.setattr(tensorrt, "logger", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    return trt


def job(tmp_path: Path, precision: str = "fp32") -> Job:
    draft = Entry(tmp_path / ".export-1-x", "deepspeech2_tiny", "tensorrt")
    draft.version.mkdir(parents=True)
    source = Origin(tmp_path / "model.onnx", Golden({}, {}))
    return Job(get("deepspeech2_tiny"), precision, draft.version / "model.plan", lambda: source, None)


def test_a_build_keeps_its_log_and_its_timings_for_the_next(tmp_path: Path, stand_in: SimpleNamespace) -> None:
    written = tensorrt.write(job(tmp_path))
    path = tmp_path / ".export-1-x" / "deepspeech2_tiny_tensorrt"
    assert (path / "1" / "model.plan").read_bytes() == b"a plan"
    assert (path / "build.log").is_file()
    assert (tmp_path / ".tensorrt" / "NVIDIA_H200-11.4.timing").read_bytes() == b"timings"
    made = stand_in.made
    assert made.builder.calls[0] == ("create_network", 2)  # strongly typed
    ranges = tensorrt.profile(get("deepspeech2_tiny"))
    assert made.shapes.calls == [("set_shape", name, *shapes) for name, shapes in ranges.items()]
    assert ("clear_flag", "tf32") in made.build.calls
    assert ("create_timing_cache", b"") in made.build.calls
    assert written == {"tensorrt": "11.4", "gpu": "NVIDIA H200", "profile": ranges, "layers": 3}
    made.build.calls.clear()
    (path / "1").rename(path / "old")
    tensorrt.write(job(tmp_path))
    assert made.build.calls[-2:] == [("create_timing_cache", b"timings"), ("set_timing_cache", made.cache, False)]
    assert [file.name for file in (tmp_path / ".tensorrt").iterdir()] == ["NVIDIA_H200-11.4.timing"]


@pytest.mark.parametrize("refused", ["create_timing_cache", "set_timing_cache"])
def test_timings_that_tensorrt_refuses_are_measured_anew(
    tmp_path: Path, stand_in: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """They may be of another driver, or damaged."""
    made = stand_in.made
    file = tmp_path / ".tensorrt" / "NVIDIA_H200-11.4.timing"
    file.parent.mkdir()
    file.write_bytes(b"damaged")
    given: list[bytes] = []

    def create(content: bytes) -> Any:
        given.append(content)
        return None if content and refused == "create_timing_cache" else made.cache

    monkeypatch.setitem(made.build.__dict__, "create_timing_cache", create)
    if refused == "set_timing_cache":
        monkeypatch.setitem(made.build.__dict__, "set_timing_cache", lambda *_: not given[-1])
    tensorrt.write(job(tmp_path))
    assert given == [b"damaged", b""]
    assert file.read_bytes() == b"timings"


def test_a_profile_that_tensorrt_refuses_ends_the_export(tmp_path: Path, stand_in: SimpleNamespace) -> None:
    stand_in.made.build.answers["add_optimization_profile"] = -1
    with pytest.raises(ArtifactError, match="does not take the profile"):
        tensorrt.write(job(tmp_path))


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The precisions in which networks have been made."""
    asked: list[str] = []

    def network_file(job: Job, target: Path) -> tuple[Path, dict[str, object]]:
        asked.append(job.precision)
        return target, {}

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
    tmp_path: Path, stand_in: SimpleNamespace, converted: list[str], precision: str, capability: tuple[int, int]
) -> None:
    wanted = rf"NVIDIA H200 has no {precision}: its compute capability is {capability[0]}\.{capability[1]}"
    with pytest.raises(ArtifactError, match=wanted) as error:
        tensorrt.write(job(tmp_path, precision))
    assert precision not in str(error.value.fix)
    assert not converted
    assert not stand_in.made.builder.calls


@pytest.mark.usefixtures("stand_in", "capability")
@pytest.mark.parametrize(
    ("precision", "capability"),
    [("fp16", (7, 5)), ("int8", (7, 5)), ("bf16", (8, 0)), ("fp8", (8, 9)), ("fp8", (9, 0))],
    indirect=["capability"],
)
def test_a_gpu_with_a_precision_gets_its_plan(tmp_path: Path, converted: list[str], precision: str) -> None:
    asked = job(tmp_path, precision)
    tensorrt.write(asked)
    assert converted == [precision]
    assert asked.path.read_bytes() == b"a plan"


def test_what_tensorrt_cannot_read_or_build_is_said_in_its_words(tmp_path: Path, stand_in: SimpleNamespace) -> None:
    asked = job(tmp_path)
    stand_in.made.parser.parse_from_file = lambda _: False
    with pytest.raises(ArtifactError, match=r"cannot read deepspeech2_tiny: no kernel for Loop"):
        tensorrt.write(asked)
    stand_in.made.parser.parse_from_file = lambda _: True
    stand_in.made.builder.answers["build_serialized_network"] = None
    with pytest.raises(ArtifactError, match="cannot build deepspeech2_tiny"):
        tensorrt.write(asked)
    assert not asked.path.exists()
