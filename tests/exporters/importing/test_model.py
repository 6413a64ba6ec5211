"""A file becomes a workload: its sizes, requests and golden answers; what engines make of it; and what is refused."""

import errno
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import exporters
from exporters.importing import model
from exporters.importing.model import ImportReport, import_model
from exporters.importing.model_file import Wishes
from exporters.onnx_passes.quantisation import folded
from exporters.pipeline.export import sha256_of
from servemark.errors import ArtifactError, OptionError
from servemark.repository.entry import Entry, read_golden
from servemark.workload import Sample, Tensor, Workload, get
from servemark.workload.imported import GOLDEN, MODELS
from servemark.workload.spec import Source
from tests.support.own_models import OPEN, TABLE, WEIGHTS, dense, from_x_to_y, lookup, save, texts


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of models."""
    monkeypatch.setenv(MODELS, str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and run files in this process, which takes a tenth of the time; test_sandbox.py has the process apart."""

    def here(_: Path, __: object, ___: object, ____: Path, work: Any) -> Any:
        return {**json.loads(json.dumps(work(lambda: None))), "open": []}

    monkeypatch.setattr(model, "run_sandboxed", here)


def drawn(workload: Workload, ranges: Mapping[str, tuple[float, float]]) -> Iterator[Sample]:
    """Requests in the bounds that were found; ids beyond every table where there are none."""
    rng = np.random.default_rng(0)

    def values(tensor: Tensor) -> npt.NDArray[np.generic]:
        if tensor.datatype == "FP32":
            return rng.random(tensor.shape, np.float32)
        least, most = ranges.get(tensor.name, (60, 90))
        return rng.integers(int(least), int(most), tensor.shape).astype(tensor.dtype)

    while True:
        yield {tensor.name: values(tensor) for tensor in workload.inputs}


def bring(path: Path, name: str = "mine", *, force: bool = False, **wishes: Any) -> ImportReport:
    return import_model(path, name, path.parent / "models", Wishes(drawn, **wishes), force=force)


def test_an_imported_file_is_a_workload_like_any_other(tmp_path: Path, models: Path) -> None:
    report = bring(dense(tmp_path / "dense.onnx"))
    workload = get("mine")
    assert (workload.inputs[0].shape, workload.outputs[0].shape, workload.max_batch) == ((6,), (4,), 32)
    assert (workload.parameters, workload.flops, workload.suites, report.one_at_a_time) == (24, 48, ("own",), None)
    golden = read_golden(models / "mine" / GOLDEN, fix="")
    x, y = golden.inputs["x"].astype(np.float32), golden.outputs["y"].astype(np.float32)
    np.testing.assert_allclose(y, np.maximum(x @ WEIGHTS, 0), rtol=1e-5)

    made = exporters.export(workload, "onnxruntime", tmp_path / "repository")
    source = made.manifest["source"]
    assert source["path"] == str(tmp_path / "dense.onnx")
    assert source["sha256"] == hashlib.sha256((tmp_path / "dense.onnx").read_bytes()).hexdigest()
    assert (made.manifest["reference"], made.manifest["output_agreement"]["weights"]) == ("onnxruntime", "own")
    assert exporters.export(workload, "onnxruntime", tmp_path / "repository").up_to_date
    assert Entry(tmp_path / "repository", "mine", "onnxruntime").read_golden() is not None


def test_another_import_is_another_artifact(tmp_path: Path) -> None:
    bring(dense(tmp_path / "dense.onnx"))
    exporters.export(get("mine"), "onnxruntime", tmp_path / "repository")
    with pytest.raises(OptionError, match="'mine' is a workload already"):
        bring(tmp_path / "dense.onnx")
    bring(tmp_path / "dense.onnx", force=True, max_batch=4)
    assert get("mine").max_batch == 4
    assert not exporters.export(get("mine"), "onnxruntime", tmp_path / "repository").up_to_date


def test_openvino_answers_as_the_file_s_own_runtime(tmp_path: Path) -> None:
    bring(lookup(tmp_path / "lookup.onnx"))
    report = exporters.export(get("mine"), "openvino", tmp_path / "repository")
    assert report.manifest["output_agreement"]["max_abs_error"] < 1e-5


def test_a_steep_answer_may_differ_as_far_as_roundings_move_it(tmp_path: Path, models: Path) -> None:
    """The sine of a sum times 100,000: the last digits of the sum decide."""
    nodes = [
        helper.make_node("Constant", [], ["steep"], value_float=1e5),
        helper.make_node("MatMul", ["x", "W"], ["z"]),
        helper.make_node("ReduceSum", ["z", "axes"], ["s"]),
        helper.make_node("Mul", ["s", "steep"], ["m"]),
        helper.make_node("Sin", ["m"], ["y"]),
    ]
    bring(from_x_to_y(tmp_path / "steep.onnx", nodes, y=(OPEN, 1)))
    moves = read_golden(models / "mine" / GOLDEN, fix="").moves
    assert list(moves) == ["y"]
    report = exporters.export(get("mine"), "openvino", tmp_path / "repository")
    kept = Entry(tmp_path / "repository", "mine", "openvino").read_golden()
    assert kept is not None
    np.testing.assert_array_equal(kept.moves["y"], moves["y"])
    assert report.manifest["output_agreement"]["samples"] == 16


def test_weights_that_the_graph_computes_are_not_called_recurrent(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["sizes"], value_ints=[6, 64]),
        helper.make_node("ConstantOfShape", ["sizes"], ["V"]),
        helper.make_node("MatMul", ["x", "V"], ["y"]),
    ]
    bring(from_x_to_y(tmp_path / "light.onnx", nodes, y=(OPEN, 64)))
    with pytest.raises(ArtifactError, match="OpenVINO finds no constant weights to quantise: the graph computes them"):
        exporters.export(get("mine"), "openvino", tmp_path / "repository", precision="int8")


def test_an_engine_that_cannot_take_the_file_is_told(tmp_path: Path) -> None:
    bring(dense(tmp_path / "dense.onnx"))
    with pytest.raises(
        OptionError, match="pytorch in fp32 cannot be made of mine, which was imported as an ONNX file"
    ) as e:
        exporters.export(get("mine"), "pytorch", tmp_path / "repository")
    assert "onnxruntime (fp32 fp16 int8), openvino (fp32" in str(e.value.fix)
    with pytest.raises(OptionError, match="pytorch in int8 cannot be made of mine"):
        exporters.export(get("mine"), "pytorch", tmp_path / "repository", precision="int8")


def test_a_changed_copy_is_not_exported(tmp_path: Path, models: Path) -> None:
    bring(dense(tmp_path / "dense.onnx"))
    (models / "mine" / "1" / "model.onnx").write_bytes(b"other")
    with pytest.raises(ArtifactError, match="is not what was imported"):
        exporters.export(get("mine"), "onnxruntime", tmp_path / "repository")


def test_open_sizes_are_asked_for(tmp_path: Path, models: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    shape = (OPEN, 3, "height", "width")
    path = from_x_to_y(tmp_path / "m.onnx", nodes, shape)
    with pytest.raises(OptionError, match=r"leaves sizes open: x FP32\[\?,3,\?,\?\]") as error:
        bring(path, command=("servemark", "import", "my model.onnx"))
    assert str(error.value.fix).startswith("servemark import 'my model.onnx' --shape x:3,224,224  # 224 stands for")
    with pytest.raises(OptionError, match=r"--shape x:4,8,8 does not fit x FP32\[\?,3,\?,\?\]"):
        bring(path, shapes={"x": (4, 8, 8)})
    with pytest.raises(OptionError, match="--shape names 'z', which is not an input"):
        bring(path, shapes={"z": (1,)})
    assert bring(path, shapes={"x": (3, 8, 4)}).workload.outputs[0].shape == (3, 8, 4)
    assert [item.name for item in models.iterdir()] == ["mine"], "failed imports leave nothing"


def test_a_batch_of_one_in_the_file_is_kept(tmp_path: Path) -> None:
    report = bring(dense(tmp_path / "one.onnx", 1, 6))
    assert (report.workload.max_batch, report.one_at_a_time) == (
        1,
        "the file fixes 1 as the first size of x FP32[1,6], y FP32[1,4]",
    )
    made = exporters.export(report.workload, "onnxruntime", tmp_path / "repository")
    assert list(made.manifest["parity"]) == ["batch_1"]


def test_samples_that_depend_on_each_other_are_sent_alone(tmp_path: Path) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=0)]
    path = from_x_to_y(tmp_path / "m.onnx", nodes)
    report = bring(path)
    assert report.workload.max_batch == 1
    assert "y of 3 samples in one request is not what each is answered alone" in str(report.one_at_a_time)


def test_a_model_that_answers_otherwise_each_time_is_refused(tmp_path: Path, models: Path) -> None:
    nodes = [helper.make_node("RandomUniformLike", ["x"], ["u"]), helper.make_node("Add", ["x", "u"], ["y"])]
    path = from_x_to_y(tmp_path / "m.onnx", nodes)
    with pytest.raises(ArtifactError, match="it answers the same request differently each time: y") as error:
        bring(path)
    assert "(its operators RandomUniformLike are random)" in error.value.what
    assert [*models.iterdir()] == []


def test_a_first_size_that_is_not_a_batch_is_told(tmp_path: Path) -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[2, 0, 1])]
    path = from_x_to_y(tmp_path / "m.onnx", nodes, (1, 4, 16), (1, 4, "t"))
    with pytest.raises(ArtifactError, match=r"'y' is \[16, 1, 4\] for one sample of x FP32\[1,4,16\]") as error:
        bring(path)
    assert "--max-batch 0" in str(error.value.fix)
    assert bring(path, max_batch=0).workload.outputs[0].shape == (16, 1, 4)


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("nodes", [["Sub", "Log"], ["Sub", "Log", "Log"]], ids=["infinite", "not a number"])
def test_answers_that_are_not_finite_agree_with_themselves(tmp_path: Path, nodes: list[str], engine: str) -> None:
    made = [helper.make_node("Sub", ["x", "x"], ["0"])]
    made += [helper.make_node("Log", [f"{place}"], [f"{place + 1}"]) for place in range(len(nodes) - 1)]
    made[-1].output[0] = "y"
    report = bring(from_x_to_y(tmp_path / "m.onnx", made))
    assert report.one_at_a_time is None
    manifest = exporters.export(report.workload, engine, tmp_path / "repository").manifest
    assert manifest["output_agreement"]["max_abs_error"] == 0


@pytest.mark.parametrize(("shapes", "first"), [({}, 1), ({"x": (2, 6)}, 2)])
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_an_input_without_dimensions_is_taken_in_a_request_of_one_sample(
    tmp_path: Path, engine: str, shapes: dict[str, tuple[int, ...]], first: int
) -> None:
    nodes = [
        helper.make_node("Cast", ["rate"], ["r"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "r"], ["y"]),
    ]
    ports = (
        [("x", TensorProto.FLOAT, (OPEN, 6)), ("rate", TensorProto.INT64, ())],
        [("y", TensorProto.FLOAT, (OPEN, 6))],
    )
    report = bring(save(tmp_path / "m.onnx", nodes, *ports), shapes=shapes)
    assert (report.workload.max_batch, report.workload.inputs[1].shape) == (0, ())
    assert report.workload.inputs[0].shape == (first, 6)
    assert report.one_at_a_time == "rate INT64[] has no dimension for a batch"
    assert exporters.export(report.workload, engine, tmp_path / "repository").manifest["parity"]


@pytest.mark.parametrize("bound", [None, (0.0, 2.0)])
def test_requests_reach_both_sides_of_a_clip_unless_the_user_bounds_them(
    tmp_path: Path, models: Path, bound: tuple[float, float] | None
) -> None:
    def ranged(_: Workload, ranges: Mapping[str, tuple[float, float]]) -> Iterator[Sample]:
        rng, (least, most) = np.random.default_rng(0), ranges.get("x", (0.0, 1.0))
        while True:
            yield {"x": rng.uniform(least, most, 6).astype(np.float32)}

    opset: Any = {"opset_imports": [helper.make_opsetid("", 9)], "ir_version": 6}
    path = from_x_to_y(tmp_path / "m.onnx", [helper.make_node("Clip", ["x"], ["y"], min=-6.0, max=6.0)], **opset)
    report = import_model(path, "mine", models, Wishes(ranged, ranges={"x": bound} if bound else {}))
    x = read_golden(models / "mine" / GOLDEN, fix="").inputs["x"].astype(np.float64)
    assert report.document["inputs"][0]["range"] == (list(bound) if bound else [-16, 16])
    assert ((x.min() < -6) and (x.max() > 6)) == (bound is None)
    assert [each.name for each in (models / "mine" / "1").iterdir()] == ["model.onnx"]


def test_warnings_of_onnx_runtime_do_not_reach_the_screen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[2, 0, 1])]
    report = bring(from_x_to_y(tmp_path / "m.onnx", nodes, (1, 4, 16), (1, 4, "t")), max_batch=0)
    exporters.export(report.workload, "onnxruntime", tmp_path / "repository")
    assert ":onnxruntime:" not in capfd.readouterr().err


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_a_model_without_a_batch_dimension_is_exported(tmp_path: Path, engine: str) -> None:
    report = bring(dense(tmp_path / "eight.onnx", 8, 6))
    workload = report.workload
    assert (workload.max_batch, workload.inputs[0].shape, workload.outputs[0].shape) == (0, (8, 6), (8, 4))
    assert (workload.flops, report.one_at_a_time) == (8 * 48, "no batch dimension")
    made = exporters.export(workload, engine, tmp_path / "repository")
    assert list(made.manifest["parity"]) == ["batch_1"]
    config = (made.folder / "config.pbtxt").read_text()
    assert "max_batch_size: 0" in config
    assert "dynamic_batching" not in config
    assert "dims: [ 8, 6 ]" in config


def test_a_triton_entry_without_batches_is_one_without_a_batch_dimension(tmp_path: Path) -> None:
    dense(tmp_path / "entry" / "1" / "model.onnx")
    config = 'max_batch_size: %d input [{ name: "x" data_type: TYPE_FP32 dims: [%s] }]'
    (tmp_path / "entry" / "config.pbtxt").write_text(config % (0, "5, 6"))
    assert bring(tmp_path / "entry").workload.inputs[0].shape == (5, 6)
    assert bring(tmp_path / "entry", "batches", max_batch=8).workload.inputs[0].shape == (6,)
    (tmp_path / "entry" / "config.pbtxt").write_text(config % (4, "6"))
    assert bring(tmp_path / "entry", "four").workload.max_batch == 4


def test_external_data_and_types_left_out_are_no_hindrance_to_other_precisions(tmp_path: Path) -> None:
    path = dense(tmp_path / "dense.onnx")
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="dense.bin", size_threshold=0)
    bring(path)
    made = exporters.export(get("mine"), "onnxruntime", tmp_path / "repository", precision="fp16")
    assert made.manifest["output_agreement"]["max_abs_error"] < 1e-2
    file = Entry(tmp_path / "repository", "mine", "onnxruntime").version / "model.onnx"
    with folded(file, tmp_path) as whole:  # what int8 is made of
        assert onnx.load(whole).graph.initializer


@pytest.mark.parametrize("name", ["libtriton_onnxruntime.so", "model.py", "weights_0.bin.so", "link"])
def test_what_a_stranger_put_beside_a_model_is_not_exported(tmp_path: Path, models: Path, name: str) -> None:
    """The attack: somebody's folder of models, with a digest that fits."""
    bring(dense(tmp_path / "dense.onnx"))
    kept = models / "mine" / "1"
    if name == "link":
        (kept / "weights_0.bin").symlink_to("/etc/hostname")
    else:
        (kept / name).write_bytes(b"code")
    description = models / "mine" / "model.json"
    document = json.loads(description.read_text())
    document["source"]["sha256"] = sha256_of(kept)
    description.write_text(json.dumps(document))
    with pytest.raises(ArtifactError, match="which no import writes there"):
        exporters.export(get("mine"), "onnxruntime", tmp_path / "repository")


@pytest.mark.parametrize(
    "name", ['x" } ] parameters { key: "EXECUTION_ENV_PATH', "x\n", "\x1b[2J", "x\\", "x" * 300, "\u200b"]
)
def test_a_tensor_s_name_is_no_configuration(tmp_path: Path, name: str) -> None:
    """The attack: Triton's Python backend starts what this parameter names."""
    shape = (OPEN, 6)
    ports = [(name, TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, shape)]
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", [name], ["y"])], *ports)
    with pytest.raises(ArtifactError, match="is empty, longer than 250 characters, or has quotes, backslashes or"):
        bring(path)


def test_strings_are_taken_by_the_file_s_own_runtime(tmp_path: Path, models: Path) -> None:
    words = itertools.cycle(["one", "zw\u00f6lf", "", "other"])

    def spoken(_: Workload, __: object) -> Iterator[Sample]:
        while True:
            yield {"x": np.array([next(words).encode(), next(words).encode()], np.object_)}

    report = import_model(texts(tmp_path / "texts.onnx"), "mine", tmp_path / "models", Wishes(spoken))
    workload = get("mine")
    assert (workload.inputs[0].datatype, report.one_at_a_time) == ("BYTES", None)
    golden = read_golden(models / "mine" / GOLDEN, fix="")
    assert golden.outputs["said"].tolist() == golden.inputs["x"].tolist()
    numbers = {b"one": 1, "zw\u00f6lf".encode(): 2}
    assert golden.outputs["y"].tolist() == [[numbers.get(word, 0) for word in row] for row in golden.inputs["x"]]
    assert {*golden.outputs["y"].ravel().tolist()} == {0, 1, 2}

    made = exporters.export(workload, "onnxruntime", tmp_path / "repository")
    config = (made.folder / "config.pbtxt").read_text()
    assert 'name: "x" data_type: TYPE_STRING dims: [ 2 ]' in config
    with pytest.raises(
        OptionError, match=r"openvino in fp32 cannot be made of mine, .* an ONNX file with strings"
    ) as e:
        exporters.export(workload, "openvino", tmp_path / "repository")
    assert e.value.fix == "use onnxruntime (fp32)"


def test_a_scalar_with_a_value_that_the_model_refuses_is_asked_for(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["TABLE", "mode"], ["row"]),
        helper.make_node("Add", ["x", "row"], ["y"]),
    ]
    width = TABLE.shape[1]
    ports = [("x", TensorProto.FLOAT, (width,)), ("mode", TensorProto.INT64, ())], [("y", TensorProto.FLOAT, (width,))]
    path = save(tmp_path / "m.onnx", nodes, *ports)
    with pytest.raises(ArtifactError, match="it fails on a sample") as error:
        bring(path, ranges={"mode": (100, 200)})
    assert "--input-range mode:VALUE:VALUE for its value" in str(error.value.fix)


def test_ids_beyond_a_table_are_told(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["ids", "ids"], ["twice"]),  # hides where they are looked up
        helper.make_node("Gather", ["TABLE", "twice"], ["y"]),
    ]
    ports = [("ids", TensorProto.INT64, (OPEN, 1))], [("y", TensorProto.FLOAT, (OPEN, 1, TABLE.shape[1]))]
    path = save(tmp_path / "m.onnx", nodes, *ports)
    with pytest.raises(ArtifactError, match="it fails on a sample") as error:
        bring(path)
    assert "--input-range ids:0:MOST" in str(error.value.fix)
    assert bring(path, ranges={"ids": (0, 20)}).workload.name == "mine"


@pytest.mark.parametrize("name", ["ranking", "a/b", "", "mine_int8"])
def test_a_name_that_cannot_be_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match=r"--name"):
        bring(dense(tmp_path / "dense.onnx"), name)


def test_what_the_runtime_says_of_a_file_names_the_file_and_the_reason(tmp_path: Path) -> None:
    """Not the copy that it tried, and the end of a long message, where the reason stands."""
    nodes = [helper.make_node("NoSuchOperator", ["x"], ["y"])]
    path = from_x_to_y(tmp_path / "m.onnx", nodes, (1, 6))
    with pytest.raises(ArtifactError, match="onnxruntime cannot load it: ") as error:
        bring(path)
    assert "No Op registered for NoSuchOperator with domain_version of 18" in error.value.what
    assert ".import-" not in error.value.what


def test_a_damaged_description_is_told(tmp_path: Path, models: Path) -> None:
    bring(dense(tmp_path / "dense.onnx"))
    description = models / "mine" / "model.json"
    description.write_text(json.dumps({"version": 1}))
    with pytest.raises(ArtifactError, match=r"model\.json cannot be read: no 'source'"):
        get("mine")
    assert get("ranking").name == "ranking"
    with pytest.raises(ArtifactError, match=r"model\.json cannot be read"):
        bring(tmp_path / "dense.onnx")
    assert bring(tmp_path / "dense.onnx", force=True).workload.name == get("mine").name


@pytest.mark.parametrize("path", ["x" * 300, f"{'x' * 300}/model.onnx"])
def test_a_path_that_the_system_refuses_is_told(tmp_path: Path, path: str) -> None:
    with pytest.raises(OptionError, match="File name too long"):
        bring(tmp_path / path)


def test_what_a_killed_import_left_is_removed_and_a_failed_one_keeps_the_last(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (models / ".import-999999999-x" / "1").mkdir(parents=True)
    bring(dense(tmp_path / "dense.onnx"))
    assert [path.name for path in models.iterdir()] == ["mine"]
    rename = Path.rename

    def full(path: Path, target: Path) -> Path:
        if path.name == "mine" and target == models / "mine":
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(ArtifactError, match=r"mine cannot be written: .*No space left") as error:
        bring(tmp_path / "dense.onnx", force=True)
    assert str(error.value.fix).startswith("make room in")
    assert [path.name for path in models.iterdir()] == ["mine"]
    assert get("mine").parameters == 24


def imported(path: Path, engine: str, *, datatype: str = "FP32") -> Workload:
    return Workload(
        name="mine",
        title="mine",
        inputs=(Tensor("x", datatype, (6,)),),
        outputs=(Tensor("y", "FP32", (4,)),),
        max_batch=8,
        build=lambda: pytest.fail("nothing is built"),
        samples=lambda _: iter(()),
        source=Source(engine, "a file", path.parent, path.name, "", {}),
    )


def classical(path: Path) -> Path:
    node = helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 6)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return from_x_to_y(path, [node], y=(OPEN, 1), opset_imports=opsets)


@pytest.mark.parametrize(
    ("engine", "make", "datatype", "other"),
    [
        ("onnxruntime", dense, "FP32", "openvino"),
        ("onnxruntime", classical, "FP32", None),
        ("onnxruntime", dense, "BYTES", None),
        ("pytorch", dense, "FP32", "openvino"),
    ],
)
def test_the_engine_takes_the_file(tmp_path: Path, engine: str, make: Any, datatype: str, other: str | None) -> None:
    path = make(tmp_path / "m.onnx")
    assert model.other_engine(imported(path, engine, datatype=datatype), path) == other


def test_an_engine_that_is_not_installed_is_not_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(engine: str, _: str) -> None:
        if engine == "openvino":
            raise ArtifactError("this export needs the package openvino", fix="")

    monkeypatch.setattr(model, "require_exporter", lacking)
    path = dense(tmp_path / "m.onnx")
    assert model.other_engine(imported(path, "onnxruntime"), path) is None
    assert model.other_engine(imported(path, "pytorch"), path) == "onnxruntime"
