"""Passes over other people's graphs: a valid artifact of near answers, or a refusal that names operator and reason."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import ModelProto

from exporters.onnx_passes import graphs, half
from exporters.onnx_passes.float8 import to_fp8
from exporters.onnx_passes.half import to_half
from exporters.onnx_passes.quantisation import to_int8
from servemark.errors import ArtifactError, ExitCode
from servemark.workload import Arrays
from tests.support.onnx_models import by_onnxruntime
from tests.support.strange_graphs import HALVES, PRODUCTS, REFUSED, graph, node, weights

ROWS = 4


def batch(model: ModelProto, seed: int = 0) -> Arrays:
    sizes = [dim.dim_value or ROWS for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return {"x": np.random.default_rng(seed).uniform(-1, 1, sizes).astype(np.float32)}


def saved(folder: Path, model: ModelProto) -> Path:
    path = folder / "source" / "model.onnx"
    path.parent.mkdir()
    onnx.save(model, path)
    return path


def near(target: Path, source: Path, inputs: Arrays, share: float) -> None:
    """Compare the answers of two files."""
    ((name, found),) = by_onnxruntime(target, inputs).items()
    wanted = by_onnxruntime(source, inputs)[name]
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert np.abs(found - wanted).max() <= share * np.abs(wanted).max()


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("make", HALVES.values(), ids=HALVES)
def test_what_has_no_half_type_stays_in_float32(make: Callable[[], ModelProto], precision: str, tmp_path: Path) -> None:
    model = make()
    source, target = saved(tmp_path, model), tmp_path / "half.onnx"
    made = to_half(source, target, precision)
    assert int(str(made[f"nodes_{precision}"])) > 0
    onnx.checker.check_model(target, full_check=True)
    multiplied = [each for each in graphs.every_node(ir.load(target)) if each.op_type in half.WEIGHTED]
    assert {value.dtype for each in multiplied for value in each.inputs[:2] if value} == {half.HALVES[precision]}
    if precision == "fp16":  # ONNX Runtime's CPU has no bf16
        near(target, source, batch(model), 0.02)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("make", PRODUCTS.values(), ids=PRODUCTS)
def test_products_of_every_shape_are_quantised(make: Callable[[], ModelProto], symmetric: bool, tmp_path: Path) -> None:
    model = make()
    source, target = saved(tmp_path, model), tmp_path / "int8.onnx"
    batches = iter([batch(model, seed) for seed in range(3)])
    assert to_int8(source, target, batches, symmetric=symmetric) == {"int8_share_of_weights": 1.0}
    onnx.checker.check_model(target, full_check=True)
    near(target, source, batch(model), 0.1)


@pytest.mark.parametrize(("make", "precision", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_with_its_reason(
    make: Callable[[], ModelProto], precision: str, words: str, tmp_path: Path
) -> None:
    source = saved(tmp_path, make())
    passes: Mapping[str, Callable[[Path, Path], object]] = {
        "fp16": lambda read, written: to_half(read, written, "fp16"),
        "int8": lambda read, written: to_int8(read, written, iter([])),
    }
    with pytest.raises(ArtifactError, match=words) as raised:
        passes[precision](source, tmp_path / "made.onnx")
    assert raised.value.exit_code == ExitCode.BAD_INPUT
    assert raised.value.fix
    assert not raised.value.what.endswith(":")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_fp8_of_an_old_opset(tmp_path: Path) -> None:
    model = graph([node("MatMul", ["x", "w"], ["y"])], {"w": weights(8, 4)}, ["n", 8], opset=11)
    source, target = saved(tmp_path, model), tmp_path / "fp8.onnx"
    assert to_fp8(source, target, iter([batch(model)])) == {"fp8_share_of_weights": 1.0}
    assert graphs.opset_of(ir.load(target)) == 19


def test_an_opset_that_cannot_be_converted_is_named(tmp_path: Path) -> None:
    unknown = graph([node("Add", ["x", "nothing"], ["y"])], {}, ["n", 8], opset=11)
    with pytest.raises(ArtifactError, match=r"opset 11 and could not be converted to 13: \w.*\w"):
        graphs.load(saved(tmp_path, unknown), opset=13)


def test_a_wrong_result_is_refused_and_a_wrong_source_left_to_the_engine(tmp_path: Path) -> None:
    wrong = HALVES["Celu"]()
    wrong.graph.node[1].op_type = "NoSuchOperator"
    source, broken = saved(tmp_path, HALVES["Celu"]()), tmp_path / "broken.onnx"
    onnx.save(wrong, broken)
    with pytest.raises(ArtifactError, match=r"checker refuses the graph in fp16: .*NoSuchOperator"):
        graphs.check(broken, source, "fp16")
    graphs.check(broken, broken, "fp16")
