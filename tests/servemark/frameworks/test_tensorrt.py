"""A TensorRT plan's engine, up to the calls of TensorRT: those are answered by a double that is as strict."""

from pathlib import Path

import pytest
import torch

from servemark.errors import ArtifactError, ServerError
from servemark.frameworks import tensorrt
from servemark.frameworks.tensorrt import TENSORRT, Plan
from tests.doubles.tensorrt import ALIGNMENT_BYTES, COLUMNS, LARGEST_BATCH, FakeTensorRT

pytestmark = pytest.mark.usefixtures("trt")


def plan(folder: Path, *, graphs: bool = False, content: bytes = b"twice", output: str = "Y") -> Plan:
    path = folder / "model.plan"
    path.write_bytes(content)
    return Plan(TENSORRT, path, "cpu", ["X"], [output], graphs=graphs)


def batch(rows: int, value: float) -> torch.Tensor:
    return torch.full((rows, COLUMNS), value)


@pytest.mark.parametrize("graphs", [False, True])
def test_shapes_come_and_go_and_answers_stay(tmp_path: Path, graphs: bool) -> None:
    """A graph of one shape is replayed after others have been captured; no replay changes an earlier answer."""
    twice = plan(tmp_path, graphs=graphs)
    batches = [batch(rows, value + 1.0) for value, rows in enumerate((1, 5, 1, 3, 5, 1))]
    answers = [twice.run({"X": x})["Y"] for x in batches]
    for x, y in zip(batches, answers, strict=True):
        torch.testing.assert_close(y, 2 * x)


def test_a_graph_is_not_tied_to_the_callers_memory(tmp_path: Path) -> None:
    twice = plan(tmp_path, graphs=True)
    first, second = batch(2, 1.0), batch(2, 2.0)
    twice.run({"X": first})
    torch.testing.assert_close(twice.run({"X": second})["Y"], batch(2, 4.0))
    torch.testing.assert_close(first, batch(2, 1.0))


def test_more_shapes_than_graphs_run_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorrt, "MAX_GRAPHS", 2)
    twice = plan(tmp_path, graphs=True)
    for rows in (1, 2, 3, 4, 1, 2):
        torch.testing.assert_close(twice.run({"X": batch(rows, 3.0)})["Y"], batch(rows, 6.0))
    assert twice._graphs is not None
    assert len(twice._graphs) == 2


@pytest.mark.parametrize("graphs", [False, True])
def test_an_address_that_tensorrt_refuses_is_copied_from(tmp_path: Path, graphs: bool) -> None:
    x = batch(3, 1.0)[1:]  # as in the middle of shared memory
    assert x.data_ptr() % ALIGNMENT_BYTES
    torch.testing.assert_close(plan(tmp_path, graphs=graphs).run({"X": x})["Y"], 2 * x)


def test_what_cannot_be_captured_is_an_error(tmp_path: Path, trt: FakeTensorRT) -> None:
    trt.can_be_captured = False
    with pytest.raises(
        ServerError, match="cannot be captured as a CUDA graph: ERROR: operation not permitted"
    ) as error:
        plan(tmp_path, graphs=True).run({"X": batch(1, 1.0)})
    assert error.value.fix == "leave out --engine-option cuda_graph"


def test_refusals_are_in_tensorrts_words(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=rf"\[{LARGEST_BATCH + 1}, {COLUMNS}\] lies outside .*: ERROR: setInputShape"):
        plan(tmp_path).run({"X": batch(LARGEST_BATCH + 1, 1.0)})
    with pytest.raises(ArtifactError, match="cannot be loaded: ERROR: the plan is of another version"):
        plan(tmp_path, content=b"older")
    with pytest.raises(ArtifactError, match=r"has the tensors \['X', 'Y'\], \['X', 'Z'\] are expected"):
        plan(tmp_path, output="Z")
    with pytest.raises(ServerError, match=r"X is torch.int64, the plan takes torch.float32"):
        plan(tmp_path).run({"X": batch(1, 1.0).long()})


def test_what_is_wrong_with_shapes_is_an_error_of_ours(tmp_path: Path, trt: FakeTensorRT) -> None:
    trt.shapes_are_faulty = True
    with pytest.raises(ServerError, match="cannot tell the plan's shapes: ERROR: inferShapes: a dimension is negative"):
        plan(tmp_path).run({"X": batch(1, 1.0)})
