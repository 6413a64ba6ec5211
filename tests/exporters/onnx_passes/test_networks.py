"""The networks that TensorRT is given in reduced precisions: valid ONNX of the right types, with answers near enough.

No GPU is needed: ONNX's reference implementation has bfloat16, ONNX Runtime rounds to float8.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from exporters import tensorrt
from exporters.onnx_passes.float8 import to_fp8
from exporters.pipeline.job import Job, Origin
from servemark.errors import ArtifactError
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Workload, get
from servemark.workload.agreement import compare_outputs
from tests.support.onnx_models import model

PRODUCTS = {"Conv", "Gemm", "MatMul"}
ROWS = 3
FLOAT8 = ir.DataType.FLOAT8E4M3FN


class Network(NamedTuple):
    """A workload's network in one precision."""

    workload: Workload
    precision: str
    path: Path
    converted: Mapping[str, object]
    golden: Golden

    def check(self, answers: list[Any]) -> None:
        """Hold answers to the first golden samples against the precision's floor; equal ones are no better."""
        for tensor, answer in zip(self.workload.outputs, answers, strict=True):
            assert answer.dtype == tensor.dtype
            reference = self.golden.outputs[tensor.name][:ROWS]
            found = compare_outputs(answer, reference, self.workload.agreement.at(self.precision))
            assert found.agrees, f"{tensor.name}: {found}"
            assert found.max_abs is None or found.max_abs > 0  # or it was computed in float32

    @property
    def inputs(self) -> Arrays:
        """The first golden samples."""
        return {name: array[:ROWS] for name, array in self.golden.inputs.items()}


@pytest.fixture
def network(exported: Any, tmp_path: Path) -> Callable[[str, str], Network]:
    """Makes a network as the exporter does before it builds a plan."""

    def made(name: str, precision: str) -> Network:
        workload, entry = get(name), exported(name, "onnxruntime")
        golden = entry.read_golden()
        assert golden is not None
        source = Origin(entry.version / "model.onnx", golden)
        job = Job(workload, precision, tmp_path / "model.plan", lambda: source, None)
        path, converted = tensorrt.network_file(job, tmp_path / "source.onnx")
        onnx.checker.check_model(path, full_check=True)  # with types
        graph = onnx.load(path).graph
        for tensors, values in ((workload.inputs, graph.input), (workload.outputs, graph.output)):
            kinds = [helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in values]
            assert kinds == [tensor.dtype for tensor in tensors]
        return Network(workload, precision, path, converted, golden)

    return made


def products(path: Path) -> list[ir.Node]:
    return [node for node in ir.traversal.RecursiveGraphIterator(ir.load(path).graph) if node.op_type in PRODUCTS]


def value(node: ir.Node, index: int) -> ir.Value:
    found = node.inputs[index]
    assert found is not None
    return found


def constant(found: ir.Value) -> npt.NDArray[Any]:
    assert found.const_value is not None
    return found.const_value.numpy()


@pytest.mark.parametrize(("precision", "kind"), [("fp16", ir.DataType.FLOAT16), ("bf16", ir.DataType.BFLOAT16)])
@pytest.mark.parametrize("name", ["resnet50_tiny", "ranking_tiny"])
def test_a_half_network_multiplies_in_its_type(
    network: Callable[[str, str], Network], name: str, precision: str, kind: ir.DataType
) -> None:
    made = network(name, precision)
    assert {value(node, 1).dtype for node in products(made.path)} == {kind}
    assert int(str(made.converted[f"nodes_{precision}"])) > 10
    made.check([*ReferenceEvaluator(str(made.path)).run(None, {**made.inputs})])


def test_an_int8_network_is_as_tensorrt_asks(network: Callable[[str, str], Network]) -> None:
    """Every zero point is 0 in int8, and no bias is quantised."""
    made = network("resnet50_tiny", "int8")
    graph = onnx.load(made.path).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    points = [constants[node.input[2]] for node in graph.node if node.op_type in {"QuantizeLinear", "DequantizeLinear"}]
    assert points
    assert all(point.dtype == np.int8 and not point.any() for point in points)
    assert made.converted["int8_share_of_weights"] == 1
    made.check(onnxruntime.InferenceSession(made.path, providers=["CPUExecutionProvider"]).run(None, {**made.inputs}))


def test_an_int8_network_is_in_order(network: Callable[[str, str], Network]) -> None:
    """Quantised, the parts of an attention come before what they read, unless they are sorted."""
    assert network("transformer_tiny", "int8").converted["int8_share_of_weights"]


def run_fp8(path: Path, inputs: Arrays) -> Any:
    """Run operator by operator: ONNX Runtime takes what surrounds a product for int8's and would fuse it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, inputs)


@pytest.mark.parametrize("name", ["resnet50_tiny", "ranking_tiny"])
def test_an_fp8_network_multiplies_what_was_rounded_to_float8(
    network: Callable[[str, str], Network], name: str
) -> None:
    made = network(name, "fp8")
    found = 0
    for node in products(made.path):
        if value(node, 1).dtype == ir.DataType.FLOAT and value(node, 1).producer() is None:
            assert node.op_type == "Conv"
            assert min(constant(value(node, 1)).shape[:2]) < 16  # an image's three channels
            continue
        read, stored = value(node, 0).producer(), value(node, 1).producer()
        assert read is not None
        assert stored is not None
        assert {read.op_type, stored.op_type} == {"DequantizeLinear"}
        rounded = value(read, 0).producer()
        assert rounded is not None
        assert rounded.op_type == "QuantizeLinear"
        assert value(rounded, 1) is value(read, 1)  # one scale both ways
        assert value(stored, 0).dtype == value(rounded, 2).dtype == FLOAT8
        assert value(rounded, 1).shape == value(stored, 1).shape == ir.Shape([])  # one for a tensor
        assert np.abs(constant(value(stored, 0)).astype(np.float32)).max() == 448  # its scale uses the whole range
        found += 1
    assert found >= 2
    assert float(str(made.converted["fp8_share_of_weights"])) > 0.8
    made.check(run_fp8(made.path, made.inputs))


def saved(folder: Path, nodes: list[onnx.NodeProto], weights: Mapping[str, Any], shape: list[Any]) -> Path:
    """A graph from X to Y."""
    of_float = {name: np.asarray(array, np.float32) for name, array in weights.items()}
    onnx.save(model(nodes, {"X": shape}, ["Y"], of_float), folder / "small.onnx")
    return folder / "small.onnx"


def test_fp8_scales_come_from_calibration(tmp_path: Path) -> None:
    """A product with the identity shows what its input was rounded to: the calibration's largest is the end."""
    source = saved(tmp_path, [helper.make_node("MatMul", ["X", "W"], ["Y"])], {"W": np.eye(32)}, ["batch", 32])
    rng = np.random.default_rng(0)
    batches = [rng.uniform(-1, 1, (1, 32)).astype(np.float32) * size for size in (2, 7, 3)]
    largest = max(float(np.abs(batch).max()) for batch in batches)

    def feed() -> Iterator[Arrays]:
        return iter([{"X": batch} for batch in batches])

    assert to_fp8(source, tmp_path / "fp8.onnx", feed()) == {"fp8_share_of_weights": 1.0}
    x = rng.uniform(-1, 1, (4, 32)).astype(np.float32) * 20
    [answer] = run_fp8(tmp_path / "fp8.onnx", {"X": x})
    scale = np.float32(largest / 448)
    wanted = np.clip(x / scale, -448, 448).astype(FLOAT8.numpy()).astype(np.float32) * scale
    np.testing.assert_allclose(answer, wanted, rtol=1e-6)
    assert np.abs(answer).max() == pytest.approx(largest)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["fp8.onnx", "small.onnx"]


@pytest.mark.parametrize(
    ("shape", "group"), [((32, 3, 3, 3), 1), ((8, 32, 1, 1), 1), ((32, 32, 7, 7), 1), ((32, 16, 1, 1), 2)]
)
def test_what_has_no_fp8_kernel_is_no_fp8(tmp_path: Path, shape: tuple[int, ...], group: int) -> None:
    node = helper.make_node("Conv", ["X", "W"], ["Y"], group=group)
    source = saved(tmp_path, [node], {"W": np.ones(shape)}, ["batch", shape[1] * group, 8, 8])
    with pytest.raises(ArtifactError, match=r"only 0% of the weights .* others belong to: Conv 100%"):
        to_fp8(source, tmp_path / "fp8.onnx", iter([]))
