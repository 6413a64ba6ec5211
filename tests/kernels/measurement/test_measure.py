"""One case: skipped with its reason, failed where it is wrong, judged by the lowest ceiling, timed in blocks."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pytest
import torch

from kernels.families.softmax import Softmax
from kernels.measurement import measure as module
from kernels.measurement.case import Case, Method, copies, needed_bytes
from kernels.measurement.device import Device
from kernels.measurement.kernel import Bound, TensorFactory
from kernels.measurement.measure import (
    MIN_COPY_BYTES,
    MIN_SAMPLES,
    MIN_TAIL_SAMPLES,
    SIDE,
    Samples,
    measure,
    prepared_for,
    probes_of,
    rotating,
    time_on_cpu,
    time_on_gpu,
)
from servemark.results.schema.header import reason_of
from servemark.results.schema.kernels import Ceiling

DEVICE = Device("cpu", cores=1, cache_bytes=1 << 20, features=frozenset({"avx2"}))
METHOD = Method(DEVICE, budget_s=0.01)
CEILING: Ceiling = {
    "precision": "fp32",
    "tflops": 1.0,
    "tflops_of": "gemm",
    "bandwidths": [
        {"mib": 0.125, "gbps": 900.0, "of": "sum"},
        {"mib": 1.0, "gbps": 800.0, "of": "copy"},
        {"mib": 8.0, "gbps": 100.0, "of": "copy"},
    ],
    "call_us": 2.0,
    "vendor_tflops": None,
    "vendor_gbps": None,
}
SMALL = Case.of("softmax", rows=64, width=100)


@dataclass(frozen=True)
class Wrong(Softmax):
    """Forgets to divide."""

    def bind(self, make: TensorFactory) -> Bound:
        data = make.normal(self.rows, self.width)
        return Bound((data,), lambda: torch.exp(data))


@dataclass(frozen=True)
class Broken(Softmax):
    """Is not there."""

    words: str = ""

    def bind(self, make: TensorFactory) -> Bound:  # noqa: ARG002 - the contract's
        def call() -> torch.Tensor:
            raise RuntimeError(self.words)

        return Bound((), call)


@pytest.fixture(autouse=True)
def _a_steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes 10 us."""
    monkeypatch.setattr(module, "time_on_cpu", lambda *_: Samples((9e-6, 10e-6, 11e-6) * 10, calls=100))
    monkeypatch.setattr(module, "first_call_s", lambda call, _: call() is None or 1e-5)


def test_a_measured_case() -> None:
    found = measure(SMALL, METHOD, CEILING)
    assert (found["status"], found["family"], found["label"]) == ("measured", "softmax", "rows=64 width=100")
    assert found["error"] is not None
    assert found["error"] <= found["tolerance"]
    assert found["ms"] is not None
    assert found["ms"]["median"] == pytest.approx(0.01)
    assert (found["flops"], found["bytes"], found["intensity"]) == (32_000, 51_200, 0.625)
    assert found["tflops"] == pytest.approx(0.0032)  # 32,000 in 10 us
    assert found["gbps"] == pytest.approx(5.12)
    assert found["compute_share"] == pytest.approx(0.0032)
    assert found["bandwidth_share"] == pytest.approx(5.12 / 900)  # 50 KiB stay in the first core's cache
    assert found["bound"] == "latency"
    assert found["bound_share"] == pytest.approx(0.2)
    assert found["probe"] == pytest.approx({"product_ms": 0.01, "copy_ms": 0.01})


@pytest.mark.parametrize(
    ("case", "bound", "floor_s"),
    [
        (Case.of("gemm", m=1000, n=1000, k=1000), "compute", 2e-3),
        (Case.of("memory", operation="copy", length=10**8), "memory", 8e-3),
        (Case.of("memory", operation="copy", length=10**6), "cache", 1e-5),  # 7.6 MiB are less than 8
        (Case.of("memory", operation="copy", length=2 * 10**6), "cache", 2e-5),  # 15.3 MiB may lie in 8 in part
        (Case.of("memory", operation="copy", length=3 * 10**6), "memory", 2.4e-4),
        (Case.of("memory", operation="copy", length=16), "latency", 2e-6),
    ],
)
def test_the_ceiling_that_allows_least_is_the_bound(case: Case, bound: str, floor_s: float) -> None:
    floors = dict(case.floor_s(CEILING))
    assert max(floors, key=lambda name: floors[name]) == bound
    assert max(floors.values()) == pytest.approx(floor_s)


def test_a_cold_cache_s_bytes_are_held_against_the_memory() -> None:
    assert Case.of("memory", operation="copy", length=10**6).floor_s(CEILING, "cold")["memory"] == pytest.approx(8e-5)


def test_a_wrong_kernel_is_failed_and_not_timed() -> None:
    found = measure(Case("softmax", Wrong(rows=64, width=100)), METHOD, CEILING)
    assert (found["status"], found["ms"], found["tflops"]) == ("failed", None, None)
    assert "of the largest value that float64 expects" in (reason_of(found, "ms") or "")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("\"softmax\" not implemented for 'Half'\nmore", "failed"),
        ("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory", "skipped"),
    ],
)
def test_pytorch_s_own_words_are_the_reason(words: str, status: str) -> None:
    found = measure(Case("softmax", Broken(rows=1, width=1, words=words)), METHOD)
    assert found["status"] == status
    assert reason_of(found, "ms") == "PyTorch: " + words.splitlines()[0]


@pytest.mark.parametrize(
    ("case", "method", "reason"),
    [
        (Case.of("gemm", m=10**6, n=10**6, k=10**6), METHOD, "memory: needs 57,220,459 MiB"),
        (
            Case.of("gemm", m=1000, n=1000, k=1000),
            Method(DEVICE, limit_s=0.001),
            "time: about 0.016 s, more than --case-limit",
        ),
        (Case("softmax", Softmax(8, 8), "int8"), METHOD, "softmax has no int8"),
        (Case("softmax", Softmax(8, 8), "bf16"), METHOD, "bf16 needs a CPU with"),
        (Case.of("softmax", rows=1, width=8), Method(DEVICE, cache="cold"), "cold cache: so small that 32,769 copies"),
        (Case.of("all_reduce", length=8, ranks=1), Method(DEVICE, cache="cold"), "one set of tensors"),
    ],
)
def test_what_is_skipped_says_why(case: Case, method: Method, reason: str) -> None:
    found = measure(case, method, CEILING)
    assert found["status"] == "skipped"
    assert reason in (reason_of(found, "ms") or "")


def test_cold_tensors_fill_the_cache_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def several(calls: list[object]) -> object:
        taken.append(len(calls))
        return calls[0]

    monkeypatch.setattr(module, "rotating", several)
    case = Case.of("softmax", rows=64, width=1000)  # half a MiB of 1 MiB
    cold = Method(DEVICE, cache="cold")
    assert measure(case, cold, CEILING)["status"] == "measured"
    assert taken == [copies(512_000, cold)] == [6]
    assert copies(512_000, METHOD) == 1
    assert needed_bytes(case, cold) == 6 * 512_000 + 4 * 512_000


def test_a_table_that_is_not_read_whole_needs_its_room() -> None:
    assert needed_bytes(Case.of("embedding", rows=10**6, width=64, lookups=1), METHOD) > 256 * 10**6


def test_a_recurrent_layer_s_fixed_part_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([Samples((30e-6,), calls=1), Samples((20e-6,), calls=1)])  # 10 and 5 steps of 2 us, and 10 us
    monkeypatch.setattr(module, "_probe", lambda _: {"product_ms": 1.0, "copy_ms": 1.0})
    monkeypatch.setattr(module, "time_on_cpu", lambda *_: next(times))
    found = measure(Case.of("recurrent", cell="lstm", hidden=4, batch=1, timesteps=10), METHOD)
    assert found["figures"]["fixed_ms"] == pytest.approx(0.01)
    assert "tflops_with_inputs" in found["figures"]


def test_pytorch_is_left_as_it_was_found() -> None:
    class Linear(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, x)

    measure(Case("softmax", Softmax(rows=2, width=4)), METHOD)
    assert torch.backends.cudnn.allow_tf32 in {True, False}  # a RuntimeError where both ways of setting it are mixed
    torch.export.export(Linear(), (torch.zeros(2, 2),))


@pytest.mark.parametrize(("precision", "numbers"), [("fp32", "ieee"), ("tf32", "tf32"), ("bf16", "ieee")])
def test_no_library_computes_in_other_numbers_than_were_asked_for(precision: str, numbers: str) -> None:
    """cuDNN's convolutions and recurrent cells are TF32 by default: on an H200 they were off by 0.0003 to 0.002."""
    backends: Any = torch.backends
    settings = (backends, backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    before = [each.fp32_precision for each in settings]
    with prepared_for(Case("softmax", Softmax(rows=2, width=4), precision)):
        assert {each.fp32_precision for each in settings} == {numbers}
    assert [each.fp32_precision for each in settings] == before


def test_without_a_ceiling_there_is_no_share() -> None:
    found = measure(SMALL, METHOD)
    assert (found["status"], found["bound"], found["compute_share"]) == ("measured", None, None)
    assert reason_of(found, "bound") == "no ceiling of its precision was measured"


def test_a_product_and_a_copy_that_no_cache_holds() -> None:
    device = Device("cpu", cores=1, cache_bytes=MIN_COPY_BYTES)  # twice that is copied
    probes = probes_of(device)
    assert list(probes) == ["product_ms", "copy_ms"]
    product, copied = (call() for call in probes.values())
    assert isinstance(product, torch.Tensor)
    assert isinstance(copied, torch.Tensor)
    assert product.shape == (SIDE, SIDE)
    assert copied.numel() * 4 * 2 == 2 * MIN_COPY_BYTES
    assert probes_of(device) is probes


def test_the_distribution_in_ms() -> None:
    found = Samples(tuple(n / 1e3 for n in range(1, 102)), calls=7).document()
    distribution = {"median": 51, "iqr": 50, "p5": 6, "p95": 96, "min": 1, "samples": 101, "calls_per_sample": 7}
    assert found == pytest.approx(distribution)


def test_few_samples_have_no_tail() -> None:
    found = Samples((1.0, 2.0, 3.0), calls=1).document()
    assert (found["median"], found["p5"], found["p95"]) == (2000, None, None)
    assert reason_of(found, "p95") == "needs 20 samples, has 3"


class Gpu:
    """A device each of whose calls takes a time, after Python has long returned; events note its clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now_s, self.calls, self.waits = seconds, 0.0, 0, 0

    def timed(self) -> Samples:
        return time_on_gpu(self.call, lambda: Edge(self), self.synchronize, budget_s=1.0)

    def call(self) -> None:
        self.calls += 1
        self.now_s += self.seconds

    def synchronize(self) -> None:
        self.waits += 1


class Edge:
    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self.at_s = gpu, 0.0

    def record(self) -> None:
        self.at_s = self._gpu.now_s

    def elapsed_time(self, end_event: Self, /) -> float:
        return (end_event.at_s - self.at_s) * 1e3


def test_a_gpu_s_short_call_is_timed_in_blocks() -> None:
    gpu = Gpu(100e-6)
    found = gpu.timed()
    assert found.calls == 16  # the least power of two that takes a millisecond
    assert found.median == pytest.approx(100e-6)
    assert len(found.seconds) in {625, 626}
    assert gpu.waits < 10  # of the device, not once for each block


def test_a_gpu_s_long_call_has_a_few_samples() -> None:
    gpu = Gpu(2.0)
    found = gpu.timed()
    assert (found.calls, len(found.seconds), gpu.calls) == (1, MIN_SAMPLES, MIN_SAMPLES + 2)


class Watch:
    """A `timeit.Timer` whose calls take `each_s`."""

    each_s = 0.0

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def timeit(self, number: int) -> float:
        return number * self.each_s


@pytest.mark.parametrize(
    ("each_s", "calls", "samples"),
    [
        (0.9e-6, 1334, 833),  # 1.2 ms each
        (1.5e-3, 1, 667),
        (0.06, 1, MIN_TAIL_SAMPLES),  # a second holds 17
        (0.3, 1, 7),  # two seconds would not hold 20
        (2.0, 1, MIN_SAMPLES),
    ],
)
def test_a_cpu_s_samples_are_blocks_of_a_millisecond_at_least(
    monkeypatch: pytest.MonkeyPatch, each_s: float, calls: int, samples: int
) -> None:
    monkeypatch.setattr(Watch, "each_s", each_s)
    monkeypatch.setattr("timeit.Timer", Watch)
    found = time_on_cpu(print, first_s=each_s, threads=1, budget_s=1.0)
    assert (found.calls, len(found.seconds)) == (calls, samples)
    assert found.median == pytest.approx(each_s)


def test_a_cpu_s_calls_are_made_on_the_threads_that_were_asked_for() -> None:
    seen: list[int] = []
    before = torch.get_num_threads()
    time_on_cpu(lambda: seen.append(torch.get_num_threads()), first_s=1e-3, threads=before + 1, budget_s=0.01)
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def test_cold_calls_take_turns() -> None:
    seen: list[int] = []
    call = rotating([partial(seen.append, number) for number in range(3)])
    for _ in range(7):
        call()
    assert seen == [0, 1, 2, 0, 1, 2, 0]
