"""A TensorRT-RTX plan's engine, up to the calls of TensorRT-RTX: a double that is as strict answers those."""

from pathlib import Path

import pytest
import torch

from servemark.errors import ServerError
from servemark.frameworks.tensorrt_rtx import CACHES, RtxPlan
from tests.doubles.tensorrt import COLUMNS, FakeTensorRT


def plan(repository: Path, *, graphs: bool = False, cache: bool = True) -> RtxPlan:
    path = repository / "twice_tensorrt_rtx" / "1" / "model.plan"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"twice")
    return RtxPlan(path, "cpu", ["X"], ["Y"], graphs=graphs, cache=cache)


def batch(rows: int) -> torch.Tensor:
    return torch.full((rows, COLUMNS), float(rows))


def run(of: RtxPlan, *rows: int) -> None:
    for each in rows:
        torch.testing.assert_close(of.run({"X": batch(each)})["Y"], 2 * batch(each))


@pytest.mark.parametrize("graphs", [False, True])
def test_kernels_are_compiled_once_for_all_processes(tmp_path: Path, trt: FakeTensorRT, graphs: bool) -> None:
    """Those of a process are kept when its plan is let go of, as at its end."""
    first = plan(tmp_path, graphs=graphs)
    run(first, 1, 5, 1)
    assert trt.compiled == [(1, COLUMNS), (5, COLUMNS)]
    del first
    (kept,) = (tmp_path / CACHES).iterdir()
    assert kept.name.endswith("-NVIDIA_L4-1.7.1.kernels")
    run(plan(tmp_path, graphs=graphs), 5, 2)
    assert trt.compiled[2:] == [(2, COLUMNS)]


def test_without_a_runtime_cache_all_is_compiled_anew(tmp_path: Path, trt: FakeTensorRT) -> None:
    for _ in range(2):
        run(plan(tmp_path, cache=False), 3)
    assert trt.compiled == [(3, COLUMNS)] * 2
    assert not (tmp_path / CACHES).exists()


def test_kernels_of_another_version_are_replaced(tmp_path: Path, trt: FakeTensorRT) -> None:
    run(plan(tmp_path), 1)
    (kept,) = (tmp_path / CACHES).iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(b"of another version")
    run(plan(tmp_path), 1)
    assert trt.compiled == [(1, COLUMNS)] * 2
    assert kept.read_bytes() == whole


def test_a_repository_that_cannot_be_written_costs_compilations_only(
    tmp_path: Path, trt: FakeTensorRT, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / CACHES).write_text("a file in the folder's place")
    run(plan(tmp_path), 1)
    assert trt.compiled == [(1, COLUMNS)]
    assert "kernels cannot be kept, and are compiled again next time" in capfd.readouterr().err


def test_what_tensorrt_rtx_does_not_capture_is_an_error(tmp_path: Path, trt: FakeTensorRT) -> None:
    trt.can_be_captured = False
    with pytest.raises(ServerError, match="cannot be captured as a CUDA graph: TensorRT-RTX says") as error:
        run(plan(tmp_path, graphs=True), 1)
    assert error.value.fix == "leave out --engine-option cuda_graph"


def test_a_hopper_is_told_what_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTensorRT().install(monkeypatch, capability=(9, 0))
    with pytest.raises(ServerError, match=r"its compute capability is 9\.0, TensorRT-RTX has 7\.5, 8\.0") as error:
        plan(tmp_path)
    assert "tensorrt" in str(error.value.fix)
