"""Parts of the ceilings: what they compute, and how large a working set may become."""

import itertools

import pytest
import torch

from kernels.ceilings import parts
from kernels.ceilings.parts import BLOCK, bandwidth_gbps, call_us, filled, product_tflops, products
from kernels.measurement import measure
from kernels.measurement.case import Case, Method, Unmeasured
from kernels.measurement.device import Device
from kernels.measurement.measure import Samples
from servemark.machine.own_process import ERRORS

DEVICE = Device("cpu", cores=1, cache_bytes=1 << 20, features=frozenset({"avx2"}))
METHOD = Method(DEVICE, cache="cold", limit_s=1e-9)
KIB = 1 << 10


@pytest.fixture(autouse=True)
def _a_steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes 2 ms, once 1 ms."""
    monkeypatch.setattr(measure, "time_on_cpu", lambda *_: Samples((2e-3, 1e-3, 2e-3), calls=1))


def test_a_product_s_rate_is_that_of_its_fastest_sample() -> None:
    case = Case.of("gemm", m=32, n=32, k=32)
    found = product_tflops(case, METHOD)
    assert found.value == pytest.approx(2 * 32**3 / 1e-3 / 1e12)
    assert (found.of, found.size_bytes) == ("gemm m=32 n=32 k=32", 0)


@pytest.mark.parametrize(
    ("precision", "families"), [("fp32", ["gemm", "gemm", "convolution"]), ("int8", ["gemm", "gemm"])]
)
def test_products_are_those_that_a_precision_has(precision: str, families: list[str]) -> None:
    found = products(precision, DEVICE)
    assert [case.family for case in found] == families
    assert {case.precision for case in found} == {precision}


def test_a_call_that_computes_almost_nothing() -> None:
    assert call_us(METHOD).value == pytest.approx(1000)


def test_the_bandwidth_of_a_set_is_that_of_the_fastest_operation() -> None:
    found = bandwidth_gbps([768 * KIB], METHOD)  # as many bytes in 1 ms, whatever the operation
    assert found.value == pytest.approx(0.786432, rel=1e-4)
    assert found.size_bytes == 768 * KIB
    assert found.of.startswith("memory operation=")


def test_a_wrong_answer_is_no_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "error_of", lambda *_: 0.5)
    assert issubclass(Unmeasured, ERRORS)  # or it would come from its process as another error
    with pytest.raises(Unmeasured, match="wrong: off by"):
        bandwidth_gbps([128 * KIB], METHOD)


@pytest.mark.parametrize(
    ("seconds_each", "size"),
    [(0.0, 1024 * KIB), (0.4, 512 * KIB), (100.0, 128 * KIB)],  # 0.4 + 0.4 s, and then twice as much again
)
def test_a_set_grows_as_long_as_it_is_filled_in_time(seconds_each: float, size: int) -> None:
    ticks = itertools.count(0.0, seconds_each)
    data = filled([128 * KIB, 256 * KIB, 512 * KIB, 1024 * KIB], DEVICE, 1.7, lambda: next(ticks))
    assert data.numel() * 4 == size
    assert float(data.min()) >= 0.5  # all of it is filled, with numbers that differ
    assert torch.equal(data[:BLOCK], data[-BLOCK:])
    assert len({*data[:BLOCK].tolist()}) > 1000


def test_what_pytorch_raises_leaves_the_part_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> torch.Tensor:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(parts, "filled", full)
    with pytest.raises(Unmeasured, match="can't allocate memory"):
        bandwidth_gbps([128 * KIB], METHOD)
