"""The engines, in-process: the right numbers, and one clear error for everything that is missing or damaged."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.frameworks.tensorflow import import_tensorflow
from servemark.workload import Engine
from servers.engines import DeviceEngine, engine_module, engine_names, load_engine
from tests.integration import test_scalar_tensors as classifier
from tests.support.small_models import NAMES, affine, artifact_of, expected

ENGINES = ["onnxruntime", "openvino", "pytorch", "tensorflow"]
Loader = Callable[..., Engine]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model_repo")
    for engine in ENGINES:
        affine(root, engine)
    return root


def load(repository: Path, engine: str, *, outputs: Sequence[str] = ("SCORES", "TOTAL"), **options: object) -> Engine:
    return load_engine(engine, artifact_of(repository, engine), inputs=["X"], outputs=outputs, **options)  # type: ignore[arg-type]  # any option


def check(loaded: Engine, rows: int) -> None:
    """Compare the answer to a batch with numpy's."""
    x = np.random.default_rng(rows).standard_normal((rows, 8), dtype=np.float32)
    answer = loaded.run({"X": x})
    assert list(answer) == NAMES
    for name, wanted in expected(x).items():
        np.testing.assert_allclose(answer[name].astype(np.float32), wanted, rtol=1e-5, atol=1e-5)


def test_every_module_of_the_package_is_an_engine() -> None:
    assert set(ENGINES) <= set(engine_names())


def test_answers_equal_numpy(repository: Path, engine: str) -> None:
    loaded = load(repository, engine, options={"intra_op_thread_count": "1"})
    for rows in (1, 7):
        check(loaded, rows)


def test_read_only_input_is_enough(repository: Path, engine: str, recwarn: pytest.WarningsRecorder) -> None:
    x = np.ones((2, 8), np.float32)
    x.flags.writeable = False
    load(repository, engine).run({"X": x})
    assert not [warning for warning in recwarn if "writable" in str(warning.message)]


def test_a_tensor_may_have_no_dimension(engine: str, tmp_path: Path) -> None:
    """Triton knows no such tensor: its backend removes and adds one."""
    artifact = classifier.write_alone(tmp_path, engine).version / engine_module(engine).ARTIFACT
    loaded = load_engine(engine, artifact, inputs=["x", "t"], outputs=["label", "scores"])
    assert list(loaded.scalars) == ["t"]
    inputs = {"x": np.array([1, 2, 3], np.float32), "t": np.array(0.5, np.float32)}
    answer = loaded.run(inputs)
    for name, wanted in classifier.expected(inputs).items():
        assert answer[name].shape == wanted.shape
        np.testing.assert_allclose(answer[name].astype(np.float32), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("engine", "provider"), [("onnxruntime", "CPUExecutionProvider"), ("openvino", "CPU f32"), ("pytorch", "eager")]
)
def test_says_what_runs(repository: Path, engine: str, provider: str) -> None:
    loaded = load(repository, engine)
    assert (loaded.name, loaded.device, loaded.provider) == (engine, "cpu", provider)


def test_missing_artifact_names_the_export_command(tmp_path: Path, engine: str) -> None:
    with pytest.raises(ArtifactError) as error:
        load(tmp_path, engine)
    assert error.value.fix == f"servemark export affine --engine {engine} --model-repository {tmp_path}"


@pytest.mark.parametrize("keep", [0, 0.5, 0.9])
def test_truncated_artifact_names_the_export_command(
    repository: Path, tmp_path: Path, engine: str, keep: float
) -> None:
    damaged = artifact_of(tmp_path, engine)
    shutil.copytree(artifact_of(repository, engine).parent, damaged.parent)
    (damaged.parent.parent / "export.json").write_text("{}")
    for file in (path for path in damaged.parent.rglob("*") if path.is_file()):
        whole = file.read_bytes()
        file.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(ArtifactError) as error:
        load(tmp_path, engine)
    assert error.value.fix == f"servemark export affine --engine {engine} --force --model-repository {tmp_path}"


def test_artifact_of_another_model_is_refused(repository: Path, engine: str) -> None:
    with pytest.raises(ArtifactError, match="configuration"):
        load(repository, engine, outputs=["SCORES", "TOTAL", "THIRD"])


def test_missing_device_is_never_replaced_by_another(repository: Path, engine: str) -> None:
    with pytest.raises(ServerError, match="cuda:63"):
        load(repository, engine, device="cuda:63")


@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:x", "CPU"])
def test_unknown_device(repository: Path, engine: str, device: str) -> None:
    with pytest.raises(OptionError, match=device):
        load(repository, engine, device=device)


@pytest.mark.parametrize("options", [{"intra_op_thread_count": "many"}, {"no_such_option": "1"}])
def test_wrong_option(repository: Path, engine: str, options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        load(repository, engine, options=options)


@pytest.mark.parametrize(
    ("engine", "options"),
    [("onnxruntime", {"cuda_graph": "true"}), ("pytorch", {"cuda_graph": "true", "compile": "true"})],
)
def test_cuda_graphs_need_a_gpu(repository: Path, engine: str, options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="cuda_graph needs"):
        load(repository, engine, options=options)


def test_unknown_engine_lists_the_known(repository: Path) -> None:
    with pytest.raises(OptionError) as error:
        load_engine("caffe", repository / "model", inputs=[], outputs=[])
    assert error.value.fix is not None
    assert "onnxruntime" in error.value.fix


@pytest.mark.parametrize(
    ("engine", "options", "provider"),
    [
        ("openvino", {"NUM_STREAMS": "1"}, "CPU f32"),
        ("openvino", {"PERFORMANCE_HINT": "THROUGHPUT"}, "CPU f32"),
        ("tensorflow", {"jit_compile": "true"}, "CPU:0 XLA"),
    ],
)
def test_an_engine_takes_options_of_its_own(
    repository: Path, engine: str, options: dict[str, str], provider: str
) -> None:
    loaded = load(repository, engine, options=options)
    check(loaded, 3)
    assert loaded.provider == provider


def test_openvino_refuses_a_type_that_the_cpu_lacks(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO itself would compute in f32 and say nothing."""
    monkeypatch.setattr("servers.engines.openvino.CAPABILITIES", {"f16": "NO_SUCH_CAPABILITY"})
    with pytest.raises(ServerError, match="does not compute in f16"):
        load(repository, "openvino", options={"INFERENCE_PRECISION_HINT": "f16"})


def test_tensorflow_refuses_other_threads_once_it_runs(repository: Path) -> None:
    x = np.ones((1, 8), np.float32)
    load(repository, "tensorflow").run({"X": x})
    with pytest.raises(ServerError, match="already runs with"):
        load(repository, "tensorflow", options={"intra_op_thread_count": "7"})


@pytest.mark.parametrize("engine", ["pytorch", "tensorflow"])
@pytest.mark.parametrize("layout", ["aligned", "misaligned", "in strides"])
def test_tensors_are_handed_over_without_numpy(
    repository: Path, monkeypatch: pytest.MonkeyPatch, engine: str, layout: str
) -> None:
    """As on a GPU, where the host has no part in it: here PyTorch's tensors lie on the CPU."""
    loaded = load(repository, engine)
    assert isinstance(loaded, DeviceEngine)
    memory = torch.randn(41, generator=torch.Generator().manual_seed(1))
    x = memory[1:].view(8, 5).T if layout == "in strides" else memory[int(layout == "misaligned") :][:40].view(5, 8)
    wanted = expected(x.numpy())

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a tensor went through numpy")

    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "numpy", refuse)
        patched.setattr(torch.Tensor, "__array__", refuse)
        patched.setattr(type(import_tensorflow().constant(0)), "numpy", refuse)
        answer = loaded.run_tensors({"X": x})
    assert list(answer) == NAMES
    for name, tensor in answer.items():
        np.testing.assert_allclose(tensor.float().numpy(), wanted[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("device", "visible"), [("cpu", []), ("cuda:0", ["GPU:0"]), ("cuda:1", ["GPU:0", "GPU:1"])])
def test_tensorflow_numbers_gpus_as_cuda_does(device: str, visible: list[str]) -> None:
    """Tensors are handed over with the number of their GPU, so TensorFlow must see those before it too."""
    from servers.engines import tensorflow

    seen: list[str] = ["GPU:0", "GPU:1", "GPU:2"]
    growing: list[str] = []
    tf32: list[bool] = []
    config = SimpleNamespace(
        list_physical_devices=lambda _: ["GPU:0", "GPU:1", "GPU:2"],
        get_visible_devices=lambda _: list(seen),
        set_visible_devices=lambda wanted, _: seen.__setitem__(slice(None), wanted),
        experimental=SimpleNamespace(
            set_memory_growth=lambda gpu, _: growing.append(gpu), enable_tensor_float_32_execution=tf32.append
        ),
    )
    tensorflow._take_device(SimpleNamespace(config=config, __version__="2.21"), device)
    assert (seen, growing) == (visible, visible)
    assert tf32 == [False]  # fp32 means fp32, as for the other engines


@pytest.mark.parametrize("accelerator", [{}, {"execution_accelerator": "tensorrt"}])
def test_onnxruntime_computes_fp32_in_fp32_on_a_gpu(accelerator: dict[str, str]) -> None:
    from servers.engines import onnxruntime

    providers = dict(onnxruntime._providers("cuda:1", accelerator))
    assert providers["CUDAExecutionProvider"] == {"device_id": "1", "use_tf32": "0"}
    assert ("TensorrtExecutionProvider" in providers) is bool(accelerator)


def test_onnxruntime_searches_convolutions_as_it_is_told() -> None:
    from servers.engines import onnxruntime

    [(_, settings)] = onnxruntime._providers("cuda:0", {"cudnn_conv_algo_search": "HEURISTIC"})
    assert settings["cudnn_conv_algo_search"] == "HEURISTIC"
    for device, search in (("cpu", "HEURISTIC"), ("cuda:0", "FAST")):
        with pytest.raises(OptionError, match="cudnn_conv_algo_search") as error:
            onnxruntime._providers(device, {"cudnn_conv_algo_search": search})
        assert error.value.fix == "use EXHAUSTIVE, HEURISTIC, DEFAULT on cuda:N"


@pytest.mark.slow
def test_torch_compile_compiles_at_load_for_any_batch(repository: Path) -> None:
    from torch._dynamo.utils import counters

    loaded = load(repository, "pytorch", options={"compile": "true"})
    assert loaded.provider == "torch.compile(inductor)"
    compiled = counters["stats"]["unique_graphs"]
    assert compiled > 0
    for rows in (7, 1, 2, 8):
        check(loaded, rows)
    assert counters["stats"]["unique_graphs"] == compiled


def test_an_error_of_torch_compile_without_words_has_its_name(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", lambda: "g++")
    monkeypatch.setattr(torch, "compile", lambda *_, **__: fail)
    with pytest.raises(ServerError, match="cannot compile the model: AssertionError\n"):
        load(repository, "pytorch", options={"compile": "true"})


def test_no_compiler_is_a_clear_error(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import cpp_builder, exc

    def missing() -> str:
        raise exc.InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", missing)
    with pytest.raises(ServerError, match=r"needs a C\+\+ compiler") as error:
        load(repository, "pytorch", options={"compile": "true"})
    assert "g++" in str(error.value.fix)
