"""ONNX Runtime on a GPU, as far as none is needed: its binding to device memory, graphs, and what a session asks for.

PyTorch's CPU stands for the device. tests/gpu runs the real thing.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper

from servemark.errors import ServerError
from servemark.workload import Engine
from servers.engines import load_engine
from servers.engines.onnxruntime import MAX_GRAPHS, OnnxRuntimeOnGpu
from tests.support.onnx_models import model
from tests.support.small_models import affine, expected

OUTPUTS = ["SCORES", "TOTAL"]


@pytest.fixture
def loaded(tmp_path: Path) -> onnxruntime.InferenceSession:
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return onnxruntime.InferenceSession(affine(tmp_path, "onnxruntime"), settings, providers=["CPUExecutionProvider"])


@pytest.fixture
def session(loaded: onnxruntime.InferenceSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., OnnxRuntimeOnGpu]:
    """A real ONNX Runtime session on memory of PyTorch's; without a GPU that is the host's, and the stream nobody's."""
    monkeypatch.setattr("torch.cuda.device", nullcontext)
    monkeypatch.setattr("torch.cuda.stream", nullcontext)
    monkeypatch.setattr("torch.cuda.default_stream", lambda _: None)
    stream: Any = SimpleNamespace(wait_stream=lambda _: None, synchronize=lambda: None, device=torch.device("cpu"))

    def make(*, graphs: bool = False) -> OnnxRuntimeOnGpu:
        return OnnxRuntimeOnGpu(loaded, "cpu", OUTPUTS, stream, graphs=graphs)

    return make


@pytest.mark.parametrize("graphs", [False, True])
def test_onnxruntime_reads_and_writes_device_memory(session: Callable[..., OnnxRuntimeOnGpu], graphs: bool) -> None:
    bound = session(graphs=graphs)
    batches = [
        np.random.default_rng(i).standard_normal((rows, 8), dtype=np.float32) for i, rows in enumerate((1, 5, 1))
    ]
    answers = [bound.run_tensors({"X": torch.from_numpy(x)}) for x in batches]
    for x, answer in zip(batches, answers, strict=True):  # a later batch has overwritten none of them
        for name, wanted in expected(x).items():
            np.testing.assert_allclose(answer[name].numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert list(bound._graphs) == ([((1, 8),), ((5, 8),)] if graphs else [])


def test_every_graph_has_a_number_that_onnxruntime_leaves_to_its_users(
    session: Callable[..., OnnxRuntimeOnGpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 is its own, and -1 asks for no graph (onnxruntime_run_options_config_keys.h)."""
    numbers: list[tuple[str, str]] = []

    class Options(onnxruntime.RunOptions):  # type: ignore[misc]  # it has no types
        def add_run_config_entry(self, key: str, value: str) -> None:
            numbers.append((key, value))
            super().add_run_config_entry(key, value)

    monkeypatch.setattr(onnxruntime, "RunOptions", Options)
    bound = session(graphs=True)
    for rows in (1, 5, 1):
        bound.run_tensors({"X": torch.ones(rows, 8)})
    assert numbers == [("gpu_graph_id", number) for number in ("-1", "1", "-1", "2", "1")]


def test_graphs_are_kept_for_so_many_shapes(session: Callable[..., OnnxRuntimeOnGpu]) -> None:
    bound = session(graphs=True)
    for rows in range(1, MAX_GRAPHS + 3):
        x = np.full((rows, 8), rows, np.float32)
        answer = bound.run_tensors({"X": torch.from_numpy(x)})
        np.testing.assert_allclose(answer["SCORES"].numpy(), expected(x)["SCORES"], rtol=1e-5)
    assert len(bound._graphs) == MAX_GRAPHS


def test_onnxruntime_on_a_gpu_takes_numpy_too(
    loaded: onnxruntime.InferenceSession, session: Callable[..., OnnxRuntimeOnGpu]
) -> None:
    engine: Any = session(graphs=True)
    x = np.ones((3, 8), np.float32)
    np.testing.assert_allclose(engine.run({"X": x})["SCORES"], expected(x)["SCORES"], rtol=1e-5)
    operators = len(loaded.get_provider_graph_assignment_info())
    assert engine.provider == f"CPUExecutionProvider with CUDA graphs ({operators} of {operators} operators on the CPU)"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record the options of a session on a GPU; `session` replaces the session itself."""
    asked: dict[str, Any] = {"session": SimpleNamespace(get_providers=lambda: ["CPUExecutionProvider"])}

    def start(_path: str, settings: onnxruntime.SessionOptions, **options: Any) -> Any:
        asked.update(options, recorded=settings.get_session_config_entry("session.record_ep_graph_assignment_info"))
        if isinstance(asked["session"], Exception):
            raise asked["session"]
        return asked["session"]

    monkeypatch.setattr(onnxruntime, "InferenceSession", start)
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["TensorrtExecutionProvider", "CUDAExecutionProvider"]
    )
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: asked.update(libraries="loaded"))
    monkeypatch.setattr("torch.cuda.Stream", lambda _: SimpleNamespace(cuda_stream=7))
    return asked


@pytest.mark.parametrize(
    ("accelerator", "remedy"), [({}, "onnxruntime-gpu"), ({"execution_accelerator": "tensorrt"}, "TensorRT 10")]
)
def test_onnxruntime_that_starts_no_gpu_is_an_error(
    tmp_path: Path, started: dict[str, Any], accelerator: dict[str, str], remedy: str
) -> None:
    artifact = affine(tmp_path, "onnxruntime")
    with pytest.raises(ServerError, match="offered CPUExecutionProvider instead") as error:
        load_engine("onnxruntime", artifact, inputs=["X"], outputs=OUTPUTS, device="cuda:1", options=accelerator)
    assert remedy in str(error.value.fix)
    assert started["libraries"] == "loaded"
    assert (started["enable_fallback"], started["recorded"]) == (0, "1")
    assert dict(started["providers"])["CUDAExecutionProvider"] == {
        "device_id": "1",
        "use_tf32": "0",
        "user_compute_stream": "7",
    }


@pytest.mark.parametrize("accelerator", [{}, {"execution_accelerator": "tensorrt"}])
def test_one_provider_captures_and_says_why_it_cannot(
    tmp_path: Path, started: dict[str, Any], accelerator: dict[str, str]
) -> None:
    """Two would begin a capture on one stream."""
    started["session"] = RuntimeError("the model has control flow nodes")
    with pytest.raises(ServerError, match="for CUDA graphs: the model has control flow nodes") as error:
        load_engine(
            "onnxruntime",
            affine(tmp_path, "onnxruntime"),
            inputs=["X"],
            outputs=OUTPUTS,
            device="cuda:0",
            options={"cuda_graph": "true", **accelerator},
        )
    assert error.value.fix == "leave out --engine-option cuda_graph"
    capturing = [name for name, settings in started["providers"] if any("cuda_graph" in key for key in settings)]
    assert capturing == [started["providers"][0][0]]


def convolving(folder: Path, *more: str) -> Path:
    """A model of a convolution, and of further operators that are only read."""
    sizes: list[str | int | None] = ["batch", 3, 8, 8]
    nodes = [helper.make_node("Conv", ["X", "W"], ["Y"], kernel_shape=[1, 1])]
    nodes += [helper.make_node(operator, ["Y"], [f"{operator}_Y"]) for operator in more]
    onnx.save(model(nodes, {"X": sizes}, ["Y"], {"W": np.ones((3, 3, 1, 1), np.float32)}), folder / "m.onnx")
    return folder / "m.onnx"


Asked = dict[str, Any]


@pytest.fixture
def sessions(started: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """The CUDA provider's settings of each session that is tried; one with graphs is refused if `refuses` is set."""
    tried: list[Asked] = []
    started["refuses"] = False

    def start(_path: str, _settings: object, *, providers: list[tuple[str, Asked]], **_: Any) -> Any:
        tried.append(dict(providers)["CUDAExecutionProvider"])
        if started["refuses"] and "enable_cuda_graph" in tried[-1]:
            raise RuntimeError("operators are assigned to the CPU")
        node = SimpleNamespace(name="X", shape=["batch"], type="tensor(float)")
        return SimpleNamespace(
            get_providers=lambda: ["CUDAExecutionProvider"],
            get_inputs=lambda: [node],
            get_outputs=lambda: [SimpleNamespace(name="Y", type="tensor(float)")],
            get_provider_graph_assignment_info=list,
        )

    monkeypatch.setattr(onnxruntime, "InferenceSession", start)
    return tried


def on_gpu(artifact: Path, **options: str) -> Engine:
    return load_engine("onnxruntime", artifact, inputs=["X"], outputs=["Y"], device="cuda:0", options=options)


def test_a_model_with_convolutions_keeps_a_graph_for_each_batch_size(tmp_path: Path, sessions: list[Asked]) -> None:
    loaded = on_gpu(convolving(tmp_path))
    assert [each.get("enable_cuda_graph") for each in sessions] == ["1"]
    assert loaded.provider == "CUDAExecutionProvider with CUDA graphs"


@pytest.mark.parametrize("operator", [None, "NonZero"])
def test_where_none_can_be_captured_no_kernel_is_tried(
    tmp_path: Path, sessions: list[Asked], started: dict[str, Any], operator: str | None
) -> None:
    """ONNX Runtime refuses the one when it loads it; the other would fail while it runs."""
    started["refuses"] = operator is None
    loaded = on_gpu(convolving(tmp_path, *([operator] if operator else [])))
    assert len(sessions) == (2 if operator is None else 1)
    assert sessions[-1].get("enable_cuda_graph") is None
    assert sessions[-1]["cudnn_conv_algo_search"] == "HEURISTIC"
    assert loaded.provider == "CUDAExecutionProvider with cudnn_conv_algo_search=HEURISTIC"


@pytest.mark.parametrize("options", [{"cuda_graph": "false"}, {"cudnn_conv_algo_search": "EXHAUSTIVE"}])
def test_what_is_asked_for_is_done(tmp_path: Path, sessions: list[Asked], options: dict[str, str]) -> None:
    on_gpu(convolving(tmp_path), **options)
    (asked,) = sessions
    assert "enable_cuda_graph" not in asked
    assert asked.get("cudnn_conv_algo_search") == options.get("cudnn_conv_algo_search")


def test_a_change_of_the_batch_size_costs_once_for_each_size_with_graphs(
    session: Callable[..., OnnxRuntimeOnGpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The double's convolutions are chosen anew at each change, unless a graph that is there is replayed."""
    bound = OnnxRuntimeOnGpu._bound
    searches: list[int] = []
    before, captured = [0], set[int]()

    def run(self: OnnxRuntimeOnGpu, inputs: Any, outputs: Any = None, graph: int = -1) -> Any:
        rows = len(inputs["X"])
        if graph not in captured and rows != before[0]:
            searches.append(rows)
            before[0] = rows
        captured.update({graph} - {-1})
        return bound(self, inputs, outputs, graph)

    monkeypatch.setattr(OnnxRuntimeOnGpu, "_bound", run)
    sizes = [1, 5, 1, 5, 1, 5, 1, 5]
    for graphs, wanted in ((False, sizes), (True, [1, 5])):
        searches.clear()
        before[0] = 0
        loaded = session(graphs=graphs)
        for rows in sizes:
            loaded.run_tensors({"X": torch.ones(rows, 8)})
        assert searches == wanted
