"""The hand-written pipeline: a JPEG file in, five classes out, as preprocessing and engine answer in this process."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import tritonclient.http as client
import tritonclient.utils
from onnx import helper
from PIL import Image
from sklearn.datasets import load_sample_images

import exporters
from exporters.pipeline.config_pbtxt import render
from servemark import workload
from servemark.datasets import image_folder
from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.runs.server import find_models
from servers import Server, open_server
from servers.engines import load_engine
from tests.support.onnx_models import model
from tests.support.triton import needs_triton

pytestmark = needs_triton

PIPELINE = "image_classification"
STEPS = ["image_preprocess", "resnet50_onnxruntime", "image_top5"]
START_S = 90.0


def write_narrow(repository: Path) -> None:
    """Write a network of ResNet-50's interface with few weights: the fast suite runs the pipeline unchanged."""
    entry = Entry(repository, "resnet50", "onnxruntime")
    entry.version.mkdir(parents=True)
    nodes = [
        helper.make_node("AveragePool", ["image"], ["pooled"], kernel_shape=[32, 32], strides=[32, 32]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weight"], ["logits"]),
    ]
    weight = np.random.default_rng(0).standard_normal((3 * 7 * 7, 1000), np.float32)
    image: list[str | int] = ["batch", 3, 224, 224]
    onnx.save(model(nodes, {"image": image}, ["logits"], {"weight": weight / 10}), entry.version / "model.onnx")
    names = {"model": entry.model, "engine": entry.engine, "artifact": "model.onnx"}
    entry.config.write_text(render(workload.get("resnet50"), **names))


@pytest.fixture(scope="module", params=["narrow", pytest.param("full", marks=pytest.mark.slow)])
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model_repo")
    for name in (PIPELINE, *STEPS):
        if name != "resnet50_onnxruntime":
            shutil.copytree(MODEL_REPOSITORY / name, root / name)
    if request.param == "narrow":
        write_narrow(root)
    else:
        exporters.export(workload.get("resnet50"), "onnxruntime", root)
    return root


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    names, _ = find_models([PIPELINE], "onnxruntime", repository, "fp32")
    with open_server("embedded", repository, names, start_timeout_s=START_S) as server:
        yield server


def jpeg(index: int, size: tuple[int, int] | None = None) -> bytes:
    """One of scikit-learn's photographs, china.jpg or flower.jpg, as a JPEG file."""
    picture, file = Image.fromarray(load_sample_images().images[index]), io.BytesIO()
    (picture.resize(size) if size else picture).save(file, "JPEG", quality=90)
    return file.getvalue()


def batch_of(*files: bytes) -> npt.NDArray[np.uint8]:
    batch = np.zeros((len(files), max(map(len, files))), np.uint8)
    for row, file in zip(batch, files, strict=True):
        row[: len(file)] = np.frombuffer(file, np.uint8)
    return batch


def ask(server: Server, batch: npt.NDArray[np.uint8], *outputs: client.InferRequestedOutput) -> client.InferResult:
    tensor = client.InferInput("file", batch.shape, "UINT8")
    tensor.set_data_from_numpy(batch)
    with client.InferenceServerClient(server.http) as connection:
        return connection.infer(PIPELINE, [tensor], outputs=outputs or None)


def in_process(repository: Path, tmp_path: Path, *files: bytes) -> npt.NDArray[np.float64]:
    """Probabilities by the reader of ImageNet folders and the engine without a server: [N, 1000]."""
    for number, file in enumerate(files):
        (tmp_path / f"{number}.jpg").write_bytes(file)
    artifact = Entry(repository, "resnet50", "onnxruntime").version / "model.onnx"
    engine = load_engine("onnxruntime", artifact, inputs=["image"], outputs=["logits"])
    logits = engine.run({"image": np.stack(list(image_folder.read(tmp_path)))})["logits"].astype(np.float64)
    exponents: npt.NDArray[np.float64] = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = exponents / exponents.sum(axis=1, keepdims=True)
    return probabilities


def test_pictures_get_the_classes_they_get_in_process(server: Server, repository: Path, tmp_path: Path) -> None:
    """In one request as alone, whatever their sizes; the photographs differ, so a mixed-up row would show."""
    files = jpeg(0), jpeg(1), jpeg(0, (300, 700))
    probabilities = in_process(repository, tmp_path, *files)
    expected = np.argsort(-probabilities, axis=1)[:, :5]
    assert len(set(expected[:2, 0].tolist())) == 2
    together = ask(server, batch_of(*files))
    np.testing.assert_array_equal(together.as_numpy("ids"), expected)
    scores = np.take_along_axis(probabilities, expected, axis=1)
    np.testing.assert_allclose(together.as_numpy("scores"), scores, atol=1e-5)
    np.testing.assert_allclose(together.as_numpy("probabilities"), probabilities, atol=1e-5)
    for row, file in enumerate(files):
        alone = ask(server, batch_of(file))
        np.testing.assert_array_equal(alone.as_numpy("ids")[0], expected[row])
        np.testing.assert_allclose(alone.as_numpy("scores")[0], scores[row], atol=1e-5)


def test_labels_come_by_tritons_classification_extension(server: Server) -> None:
    answer = ask(server, batch_of(jpeg(0)), *(client.InferRequestedOutput(name) for name in ("ids", "scores")))
    assert answer.as_numpy("probabilities") is None
    labelled = ask(server, batch_of(jpeg(0)), client.InferRequestedOutput("probabilities", class_count=5))
    labels = (MODEL_REPOSITORY / PIPELINE / "labels.txt").read_text().splitlines()
    assert len(labels) == 1000
    assert (labels[0], labels[207], labels[999]) == ("tench", "golden retriever", "toilet tissue")
    (lines,) = labelled.as_numpy("probabilities")
    for line, number, score in zip(lines, answer.as_numpy("ids")[0], answer.as_numpy("scores")[0], strict=True):
        found, identifier, label = line.decode().split(":")
        assert (int(identifier), label) == (number, labels[number])
        assert float(found) == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("file", [b"hello", jpeg(0)[:1000]], ids=["text", "truncated"])
def test_a_file_that_is_no_picture_fails_alone(server: Server, file: bytes) -> None:
    with pytest.raises(tritonclient.utils.InferenceServerException, match="file is not a readable picture: "):
        ask(server, batch_of(file))
    assert ask(server, batch_of(jpeg(0))).as_numpy("ids").shape == (1, 5)


@pytest.mark.skipif(
    np.__version__ >= "2", reason="the wheel's stub needs servers.triton_backend.tensors beside numpy 2"
)
def test_steps_need_nothing_of_servemark(repository: Path, tmp_path: Path) -> None:
    """As in NVIDIA's container, where the project is not installed."""
    copy = tmp_path / "model_repo"
    shutil.copytree(repository, copy)
    for step in ("image_preprocess", "image_top5"):
        model = copy / step / "1" / "model.py"
        code = model.read_text()
        assert code.count("servers.triton_backend.tensors import") == 1
        model.write_text(code.replace("servers.triton_backend.tensors import", "not_installed.tensors import"))
    (tmp_path / "pictures").mkdir()
    expected = np.argsort(-in_process(repository, tmp_path / "pictures", jpeg(1)), axis=1)[:, :5]
    with open_server("embedded", copy, [PIPELINE], start_timeout_s=START_S) as alone:
        np.testing.assert_array_equal(ask(alone, batch_of(jpeg(1))).as_numpy("ids"), expected)


def test_serve_takes_workloads_and_directories(repository: Path) -> None:
    by_hand, entries = find_models(["resnet50", PIPELINE], "onnxruntime", repository, "fp32")
    assert (by_hand, [entry.model for entry in entries]) == ([PIPELINE], ["resnet50_onnxruntime"])
    with pytest.raises(OptionError, match="unknown workload 'image_classificatio'"):
        find_models(["image_classificatio"], "onnxruntime", repository, "fp32")
    with pytest.raises(ArtifactError, match="ncf_onnxruntime is not in"):
        find_models(["ncf"], "onnxruntime", repository, "fp32")


def test_a_pipeline_without_its_network_names_the_export(tmp_path: Path) -> None:
    for name in (PIPELINE, "image_preprocess", "image_top5"):
        shutil.copytree(MODEL_REPOSITORY / name, tmp_path / name)
    with pytest.raises(ArtifactError, match="resnet50_onnxruntime is not in") as caught:
        open_server("embedded", tmp_path, [PIPELINE]).start()
    assert caught.value.fix == f"servemark export resnet50 --engine onnxruntime --model-repository {tmp_path}"


def test_a_step_that_cannot_be_loaded_is_named(repository: Path, tmp_path: Path) -> None:
    shutil.copytree(repository, tmp_path / "model_repo")
    (tmp_path / "model_repo" / "image_preprocess" / "1" / "model.py").write_text("import no_such_package\n")
    server = open_server("embedded", tmp_path / "model_repo", [PIPELINE], start_timeout_s=START_S)
    with pytest.raises(ServerError, match=r"cannot load image_preprocess: .*no_such_package"), server:
        pass
