"""Random requests reach both sides of what a graph compares with, as far as a range can."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from exporters.importing import thresholds
from exporters.importing.model_file import Ranges
from servemark.workload import Arrays, Sample
from tests.support.own_models import OPEN, dense, save

FREE = {"x": "FP32"}
X, Y = [("x", TensorProto.FLOAT, (OPEN, 6))], [("y", TensorProto.FLOAT, (OPEN, 6))]
OLD = {"opset_imports": [helper.make_opsetid("", 9)], "ir_version": 6}
CLASSICAL = {"opset_imports": [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]}


def draw(free: dict[str, str], asked: list[Ranges]) -> Any:
    """Requests as `servemark import` draws them; notes the ranges that were asked for."""

    def drawn(ranges: Ranges) -> Iterator[Sample]:
        asked.append(ranges)
        rng = np.random.default_rng(0)
        while True:
            yield {name: one(datatype, ranges.get(name, (0, 1)), rng) for name, datatype in free.items()}

    return drawn


def one(datatype: str, bounds: tuple[float, float], rng: np.random.Generator) -> npt.NDArray[Any]:
    least, most = bounds
    if datatype == "FP32":
        return (least + (most - least) * rng.random(6)).astype(np.float32)
    return rng.integers(int(least), int(most), 6, endpoint=True)


def together(samples: Any) -> Arrays:
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


def chosen(path: Path, free: dict[str, str] = FREE, asked: list[Ranges] | None = None) -> Ranges:
    tries: list[Ranges] = [] if asked is None else asked
    before = sorted(each.name for each in path.parent.iterdir())
    found = thresholds.ranges(path, free, draw(free, tries), together, together=4)
    assert sorted(each.name for each in path.parent.iterdir()) == before
    return found


def one_node(
    tmp_path: Path, kind: str, *more: NodeProto, outputs: Any = Y, model: Any = None, **attributes: Any
) -> Path:
    node = helper.make_node(kind, ["x"], ["y" if not more else "z"], **attributes)
    return save(tmp_path / "m.onnx", [node, *more], X, outputs, **(model or {}))


@pytest.mark.parametrize(
    ("kind", "attributes", "model", "range_"),
    [
        ("Clip", {"min": -6.0, "max": 6.0}, OLD, (-16, 16)),
        ("Clip", {"min": 0.0, "max": 0.5}, OLD, (-1, 1)),
        ("Relu", {}, None, (-1, 1)),
        ("LeakyRelu", {}, None, (-1, 1)),
        ("HardSigmoid", {}, None, (-4, 4)),
        ("HardSwish", {}, None, (-4, 4)),
        ("ThresholdedRelu", {"alpha": 100.0}, None, (-256, 256)),
        ("Shrink", {"lambd": 1.5}, None, (-4, 4)),
        ("Binarizer", {"domain": "ai.onnx.ml", "threshold": 20.0}, CLASSICAL, (-64, 64)),
    ],
)
def test_the_smallest_range_with_both_sides_is_taken(
    tmp_path: Path, kind: str, attributes: dict[str, Any], model: Any, range_: tuple[float, float]
) -> None:
    assert chosen(one_node(tmp_path, kind, model=model, **attributes)) == {"x": range_}


@pytest.mark.parametrize("kind", ["Greater", "LessOrEqual", "Max"])
@pytest.mark.parametrize("through", [False, True], ids=["at once", "behind a product"])
def test_comparisons_with_a_constant(tmp_path: Path, kind: str, through: bool) -> None:
    limit = helper.make_node("Constant", [], ["limit"], value_float=30.0)
    ten = helper.make_node("Constant", [], ["ten"], value_float=10.0)
    nodes = [limit, ten, helper.make_node("Mul", ["x", "ten"], ["wide"])]
    nodes += [helper.make_node(kind, ["wide" if through else "x", "limit"], ["c"])]
    nodes += [helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT)]
    path = save(tmp_path / "m.onnx", nodes, X, Y)
    assert chosen(path) == {"x": (-4, 4) if through else (-64, 64)}


def test_where_nothing_is_compared_the_default_stays_and_nothing_is_tried(tmp_path: Path) -> None:
    asked: list[Ranges] = []
    assert chosen(one_node(tmp_path, "Sigmoid"), asked=asked) == {}
    assert asked == []
    assert chosen(dense(tmp_path / "dense.onnx"), asked=asked) == {}, "its products have both signs"
    assert asked == [{}]


def test_a_value_that_nothing_reaches_changes_nothing(tmp_path: Path) -> None:
    nodes = [helper.make_node("Sigmoid", ["x"], ["z"]), helper.make_node("Clip", ["z"], ["y"], min=-6.0, max=6.0)]
    assert chosen(save(tmp_path / "m.onnx", nodes, X, Y, **OLD)) == {}


def test_arithmetic_with_shapes_is_not_a_threshold(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Constant", [], ["six"], value_int=6),
        helper.make_node("Equal", ["sizes", "six"], ["same"]),
        helper.make_node("Where", ["same", "sizes", "six"], ["shape"]),
        helper.make_node("Reshape", ["x", "sizes"], ["y"]),
    ]
    assert thresholds.sites(onnx.load(save(tmp_path / "m.onnx", nodes, X, Y))) == []


def test_ranges_that_end_in_nan_are_passed_over(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sqrt", ["x"], ["z"]),
        helper.make_node("Constant", [], ["limit"], value_float=3.0),
        helper.make_node("Min", ["z", "limit"], ["y"]),
    ]
    assert chosen(save(tmp_path / "m.onnx", nodes, X, Y)) == {}


def test_ranges_in_which_the_answers_differ_in_size_are_passed_over(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["limit"], value_float=0.9),
        helper.make_node("Sub", ["x", "limit"], ["less"]),
        helper.make_node("Relu", ["less"], ["z"]),
        helper.make_node("NonZero", ["z"], ["y"]),
    ]
    assert chosen(save(tmp_path / "m.onnx", nodes, X, [("y", TensorProto.INT64, (2, "found"))])) == {"x": (-4, 4)}


def test_whole_numbers_are_widened_where_the_model_runs_on_them(tmp_path: Path) -> None:
    ids = [("ids", TensorProto.INT64, (OPEN, 6))]
    nodes = [
        helper.make_node("Constant", [], ["limit"], value_int=9),
        helper.make_node("Less", ["ids", "limit"], ["c"]),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    assert chosen(save(tmp_path / "m.onnx", nodes, ids, Y), {"ids": "INT64"}) == {"ids": (0, 16)}
    nodes += [helper.make_node("Gather", ["W", "ids"], ["rows"]), nodes.pop()]
    outputs = [*Y, ("rows", TensorProto.FLOAT, (OPEN, 6, 4))]
    assert chosen(save(tmp_path / "m.onnx", nodes, ids, outputs), {"ids": "INT64"}) == {}, "the table has 6 rows"


def test_trees_are_asked_on_both_sides_of_their_splits(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": [0, 1, 2, 3, 4],
        "nodes_featureids": [0, 3, 0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_values": [30.0, 2.0, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 4, 0, 0, 0],
        "target_treeids": [0, 0, 0],
        "target_nodeids": [2, 3, 4],
        "target_ids": [0, 0, 0],
        "target_weights": [1.0, 2.0, 3.0],
        "n_targets": 1,
    }
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **tree)
    path = save(tmp_path / "m.onnx", [node], X, [("y", TensorProto.FLOAT, (OPEN, 1))], **CLASSICAL)
    assert chosen(path) == {"x": (-64, 64)}


def test_smaller_ranges_come_first_and_each_once() -> None:
    for free in (FREE, {"x": "FP32", "ids": "INT64"}, {"ids": "INT32"}):
        trials = thresholds._trials(free)
        widths = [max(most for _, most in trial.values()) for trial in trials]
        assert widths == sorted(widths)
        assert all(one != other for one, other in itertools.combinations(trials, 2))
    assert thresholds._trials({"words": "BYTES"}) == []
