"""Triton's backend without a Triton: tensors by numpy on the CPU and by DLPack on a GPU, and states of sequences.

Triton's module is a fake, and PyTorch's CPU stands for the GPU. tests/gpu runs the real thing.
"""

import importlib
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from servemark.errors import ArtifactError
from servemark.repository.model_config import Settings, parse
from servemark.workload import Arrays
from servers.engines import engine_options, model_inputs, model_outputs
from tests.support.small_models import FloatArray, expected

STATE = {"input_name": "s", "output_name": "so"}
START, END = 1, 2


class Tensor:
    """Tensor that Triton hands to a backend, and takes from it."""

    def __init__(self, name: str, array: Any, *, on_gpu: bool = False) -> None:
        self._name, self.array, self._on_gpu = name, array, on_gpu

    def name(self) -> str:
        return self._name

    def is_cpu(self) -> bool:
        return not self._on_gpu

    def as_numpy(self) -> Any:
        assert not self._on_gpu, "Triton refuses as_numpy on a tensor in GPU memory"
        return self.array

    def to_dlpack(self) -> Any:
        return torch.from_numpy(self.array).__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    @staticmethod
    def from_dlpack(name: str, value: Any) -> "Tensor":
        assert not isinstance(value, torch.Tensor) or value.is_contiguous()
        return Tensor(name, value)


class Metrics:
    GAUGE = 1
    labels: dict[str, str]

    def __init__(self, **_: Any) -> None: ...

    def Metric(self, labels: dict[str, str]) -> Any:  # noqa: N802  # Triton's name
        Metrics.labels = labels
        return SimpleNamespace(set=lambda _: None)


class Request:
    def __init__(self, x: FloatArray, *, on_gpu: bool = False) -> None:
        self._x = Tensor("X", x, on_gpu=on_gpu)

    def inputs(self) -> list[Tensor]:
        return [self._x]

    def requested_output_names(self) -> list[str]:
        return ["SCORES"]


class DeviceOnly:
    """An engine on a GPU, whose arithmetic is done on the CPU; it fails where it is handed numpy."""

    name, device, provider = "fake", "cuda:1", "fake"
    batches: list[int]

    def __init__(self) -> None:
        self.batches = []

    def run(self, _: Arrays) -> Arrays:
        raise AssertionError("numpy reached an engine that takes device tensors")

    def run_tensors(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        self.batches.append(len(inputs["X"]))
        return {name: torch.from_numpy(array) for name, array in expected(inputs["X"].numpy()).items()}


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The adapter's module, with a Triton that is not there."""
    fake = SimpleNamespace(
        Tensor=Tensor,
        InferenceResponse=lambda tensors=(), error=None: SimpleNamespace(
            tensors={t.name(): t.array for t in tensors}, error=error
        ),
        TritonError=str,
        MetricFamily=Metrics,
        TRITONSERVER_REQUEST_FLAG_SEQUENCE_START=START,
        TRITONSERVER_REQUEST_FLAG_SEQUENCE_END=END,
    )
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", fake)
    ours = ("servers.triton_backend.tensors", "servers.triton_backend.adapter")
    for name in ours:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("servers.triton_backend.adapter")
    for name in ours:
        sys.modules.pop(name, None)


def start(module: ModuleType, engine: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> Any:
    devices: list[str] = []

    def load_model(_config: Any, _version: Path, device: str) -> Any:
        devices.append(device)
        return engine

    monkeypatch.setattr(module, "load_model", load_model)
    adapter = module.Adapter()
    config = '{"input": [{"name": "X"}], "output": [{"name": "SCORES"}], "max_batch_size": 8}'
    adapter.initialize(
        {
            "model_config": config,
            "model_repository": "/models",
            "model_version": "1",
            "model_instance_kind": kind,
            "model_instance_device_id": "1",
            "model_name": "affine",
        }
    )
    assert devices == ["cuda:1" if kind == "GPU" else "cpu"]
    return adapter


def test_a_model_that_ends_lets_go_of_its_metric_before_the_family(
    adapter: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real stub crashes where Python drops them later, at its own end."""
    gone: list[str] = []

    class Family(Metrics):
        def __init__(self, **_: Any) -> None:
            weakref.finalize(self, gone.append, "family")

        def Metric(self, labels: dict[str, str]) -> Any:  # noqa: N802  # Triton's name
            metric = Metrics()
            weakref.finalize(metric, gone.append, f"metric of {labels['engine']}")
            return metric

    monkeypatch.setattr(Metrics, "set", lambda *_: None, raising=False)
    monkeypatch.setattr(adapter.triton, "MetricFamily", Family)
    model = start(adapter, SimpleNamespace(name="fake", device="cpu", provider="fake", run=dict), monkeypatch, "CPU")
    assert gone == []
    model.finalize()
    assert gone == ["metric of fake", "family"]


def test_on_a_gpu_tensors_reach_the_engine_on_the_device(adapter: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.device", lambda _: "cpu")  # there is no cuda:1
    current: list[object] = []
    monkeypatch.setattr("torch.cuda.set_device", current.append)
    engine = DeviceOnly()
    instance = start(adapter, engine, monkeypatch, "GPU")
    xs = [np.random.default_rng(i).standard_normal((1 + i, 8), dtype=np.float32) for i in range(3)]
    answers = instance.execute([Request(xs[0], on_gpu=True), Request(xs[1]), Request(xs[2], on_gpu=True)])
    assert engine.batches == [6]  # joined, those from the host too
    assert current == ["cpu"]  # PyTorch hands out tensors of the current device only
    for x, answer in zip(xs, answers, strict=True):
        assert isinstance(answer.tensors["SCORES"], torch.Tensor)
        np.testing.assert_allclose(answer.tensors["SCORES"].numpy(), expected(x)["SCORES"], rtol=1e-5)
    assert Metrics.labels["device"] == "cuda:1"


@pytest.mark.parametrize("kind", ["CPU", "GPU"])
def test_an_engine_of_the_host_gets_numpy(adapter: ModuleType, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """On a CPU even an engine that takes tensors does; on a GPU one that takes numpy alone."""
    engine: Any = SimpleNamespace(
        name="fake", device="cpu" if kind == "CPU" else "cuda:1", provider="fake", run=expected_of
    )
    if kind == "CPU":
        engine.run_tensors = None
    instance = start(adapter, engine, monkeypatch, kind)
    x = np.ones((2, 8), np.float32)
    (answer,) = instance.execute([Request(x)])
    assert [*answer.tensors] == ["SCORES"]  # nobody asked for the other output
    assert isinstance(answer.tensors["SCORES"], np.ndarray)
    np.testing.assert_allclose(answer.tensors["SCORES"], expected(x)["SCORES"], rtol=1e-5)


@pytest.mark.parametrize("bad", [{77}, {0, 127}, set(), set(range(128))], ids=["one", "two", "none", "all"])
def test_a_bad_request_costs_its_neighbours_few_runs(
    adapter: ModuleType, monkeypatch: pytest.MonkeyPatch, bad: set[int]
) -> None:
    runs = []

    def run(inputs: Arrays) -> Arrays:
        runs.append(len(inputs["X"]))
        if any(int(number) in bad for number in inputs["X"][:, 0]):
            raise ValueError("no such item")
        return {"SCORES": np.asarray(inputs["X"], np.float32) + 1}

    engine = SimpleNamespace(name="fake", device="cpu", provider="fake", run=run)
    instance = start(adapter, engine, monkeypatch, "CPU")
    answers = instance.execute([Request(np.full((1, 8), number, np.float32)) for number in range(128)])
    for number, answer in enumerate(answers):
        if number in bad:
            assert answer.error == "fake: no such item"
        else:
            np.testing.assert_array_equal(answer.tensors["SCORES"], np.full((1, 8), number + 1, np.float32))
    # log2(128) halvings for each of few bad requests, and a last run of it alone that tells its error
    assert len(runs) <= min(1 + len(bad) * (2 * 7 + 1), 128 * 3)


def expected_of(inputs: Arrays) -> Arrays:
    x = inputs["X"]
    assert isinstance(x, np.ndarray)
    return dict(expected(x.astype(np.float32)))


CONFIG = 'name: "affine" parameters { key: "intra_op_thread_count" value: { string_value: "1" } }'


def test_inputs_are_left_on_the_gpu_by_the_configuration_of_one() -> None:
    on_gpu = Settings(device="cuda:0,1").apply(CONFIG)
    parameters = {key: value.string_value for key, value in parse(on_gpu).parameters.items()}
    assert parameters == {"FORCE_CPU_ONLY_INPUT_TENSORS": "no", "intra_op_thread_count": "1"}
    back = parse(Settings(device="cpu").apply(on_gpu)).parameters
    assert list(back) == ["intra_op_thread_count"]


def test_tritons_own_parameters_are_no_options_of_the_engine() -> None:
    parameters = {"FORCE_CPU_ONLY_INPUT_TENSORS": "no", "intra_op_thread_count": "1"}
    config = {"parameters": {key: {"string_value": value} for key, value in parameters.items()}}
    assert engine_options(config) == {"intra_op_thread_count": "1"}


def of_sequence(sequence: int, flags: int = 0) -> Any:
    """A request of a sequence."""
    return SimpleNamespace(correlation_id=lambda: sequence, flags=lambda: flags)


def test_each_sequence_has_its_own_state(adapter: ModuleType) -> None:
    states = adapter.SequenceStates({"sequence_batching": {"state": [STATE]}})
    buffer = np.zeros((1, 1))
    for sequence in (1, 2):
        arrays = {"s": "initial"}
        states.fill(of_sequence(sequence, START), arrays)
        assert arrays == {"s": "initial"}
        buffer[:] = sequence
        states.keep(of_sequence(sequence, START), {"so": buffer})
    for sequence in (1, 2):
        later: dict[str, Any] = {}
        states.fill(of_sequence(sequence), later)
        assert later["s"].tolist() == [[sequence]]


def test_an_ended_and_an_idle_sequence_are_forgotten(adapter: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(adapter.time, "monotonic", lambda: now[0])
    states = adapter.SequenceStates(
        {"sequence_batching": {"state": [STATE], "max_sequence_idle_microseconds": 5_000_000}}
    )
    states.keep(of_sequence(1, START), {"so": 1})
    states.keep(of_sequence(1, END), {"so": 2})
    states.keep(of_sequence(2, START), {"so": 3})
    now[0] += 10.1
    states.fill(of_sequence(3, START), {})
    for sequence in (1, 2):
        with pytest.raises(ValueError, match=f"the state of sequence {sequence} is not here"):
            states.fill(of_sequence(sequence), {})


def test_a_sequence_must_stay_with_its_instance(adapter: ModuleType) -> None:
    batching = {"state": [STATE], "oldest": {}}
    for group in ({"count": 2}, {"count": 1, "gpus": [0, 1]}, {"gpus": [0, 1]}):
        with pytest.raises(ArtifactError, match="with 2 instances"):
            adapter.SequenceStates({"sequence_batching": batching, "instance_group": [group]})
    assert adapter.SequenceStates({"sequence_batching": batching, "instance_group": [{"count": 1}]})
    assert not adapter.SequenceStates({"instance_group": [{"count": 2}]})


def test_a_model_has_inputs_that_no_client_sends() -> None:
    config = {
        "input": [{"name": "x"}],
        "output": [{"name": "y"}],
        "sequence_batching": {"control_input": [{"name": "START"}], "state": [STATE]},
    }
    assert (model_inputs(config), model_outputs(config)) == (["x", "START", "s"], ["y", "so"])
