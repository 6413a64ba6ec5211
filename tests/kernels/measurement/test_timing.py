"""Distributions, blocks by device events on a clock of their own, and caches that others have filled."""

from collections.abc import Iterator
from functools import partial

import pytest
import torch

from kernels.measurement.timing import (
    MIN_SAMPLES,
    MIN_TAIL_SAMPLES,
    Samples,
    rotating,
    time_on_cpu,
    time_on_gpu,
)
from servemark.results.schema.header import reason_of


class Gpu:
    """A device whose calls take what `times_s` say, after Python has long returned; events note its clock."""

    def __init__(self, times_s: Iterator[float]) -> None:
        self.now_s, self.calls, self.waits = 0.0, 0, 0
        self._times_s = times_s

    def call(self) -> None:
        self.calls += 1
        self.now_s += next(self._times_s)

    def event(self) -> "Edge":
        return Edge(self)

    def synchronize(self) -> None:
        self.waits += 1


class Edge:
    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self.at_s = gpu, 0.0

    def record(self) -> None:
        self.at_s = self._gpu.now_s

    def elapsed_time(self, end_event: "Edge", /) -> float:
        return (end_event.at_s - self.at_s) * 1e3


def forever(seconds: float) -> Iterator[float]:
    while True:
        yield seconds


def test_the_distribution_in_ms() -> None:
    found = Samples(tuple(n / 1e3 for n in range(1, 102)), calls=7).document()
    assert found["median"] == pytest.approx(51)
    assert found["iqr"] == pytest.approx(50)
    assert found["p5"] == pytest.approx(6)
    assert found["p95"] == pytest.approx(96)
    assert found["min"] == pytest.approx(1)
    assert (found["samples"], found["calls_per_sample"]) == (101, 7)


def test_few_samples_have_no_tail() -> None:
    found = Samples((1.0, 2.0, 3.0), calls=1).document()
    assert (found["median"], found["p5"], found["p95"]) == (2000, None, None)
    assert reason_of(found, "p95") == "needs 20 samples, has 3"


def test_a_gpu_s_short_call_is_timed_in_blocks() -> None:
    gpu = Gpu(forever(100e-6))
    found = time_on_gpu(gpu.call, gpu.event, gpu.synchronize, budget_s=1.0)
    assert found.calls == 16  # the least power of two that takes a millisecond
    assert found.median == pytest.approx(100e-6)
    assert len(found.seconds) in {625, 626}
    assert gpu.waits < 10  # of the device, not once for each block


def test_a_gpu_s_long_call_has_a_few_samples() -> None:
    gpu = Gpu(forever(2.0))
    found = time_on_gpu(gpu.call, gpu.event, gpu.synchronize, budget_s=1.0)
    assert (found.calls, len(found.seconds)) == (1, MIN_SAMPLES)
    assert gpu.calls == MIN_SAMPLES + 2


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
