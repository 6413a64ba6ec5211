"""Ceilings on machines that report any cache: what is measured, left out, kept, and never ends the run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kernels.ceilings import kept as module
from kernels.ceilings.ceiling import (
    SETS_S,
    SHEETS,
    SMALLEST_BYTES,
    ceiling_of,
    cost_s,
    disturbed,
    doubt,
    falling,
    fitting,
    held_bytes,
    promised,
    settled,
    sheet_of,
    working_sets,
)
from kernels.ceilings.kept import Kept, Source
from kernels.ceilings.parts import Part, bandwidth_gbps, call_us, product_tflops
from kernels.measurement.case import MIB, Method, Unmeasured
from kernels.measurement.device import PRECISIONS, USUAL_CACHE_BYTES, Device
from servemark.campaign import Progress
from servemark.machine.own_process import Ended, OwnProcess
from servemark.results.schema.kernels import Bandwidth, Ceiling
from servemark.stats.unknown import unknown

GIB = 1 << 30
CACHE_GBPS, MEMORY_GBPS = 100.0, 10.0
Measure = Callable[..., tuple[Ceiling, Source]]


@dataclass
class Machine(OwnProcess):
    """Answers at once, as cores do that hold `held` bytes and fill `filled` bytes in time."""

    held: int = 32 * MIB
    filled: int = 8 * GIB
    fails: dict[Callable[..., Any], Exception] = field(default_factory=dict)
    seconds: float = 0.0
    now: float = 0.0
    sets: list[int] = field(default_factory=list)
    disturbed: tuple[int, ...] = ()

    def run(self, call: Callable[..., Any], *arguments: Any, timeout_s: float | None = None) -> Any:
        assert timeout_s
        assert timeout_s > 0
        self.now += self.seconds
        if call in self.fails:
            raise self.fails[call]
        if call is product_tflops:
            return Part(0.1, str(arguments[0]))
        if call is call_us:
            return Part(1.0, "copy")
        assert call is bandwidth_gbps
        sizes: Sequence[int] = arguments[0]
        size = max([sizes[0], *(each for each in sizes if each <= self.filled)])
        self.sets.append(size)
        if size in self.disturbed:
            return Part(MEMORY_GBPS / 5, "copy", size)
        return Part(CACHE_GBPS if size <= self.held else MEMORY_GBPS, "copy", size)


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Ceiling | None, Source]]:
    """Measure the ceilings on a machine, whose parts are kept from call to call."""
    monkeypatch.setattr(module, "watching", lambda: None)
    monkeypatch.setattr(module, "taken", lambda _: 0.0)

    def measured(
        machine: Machine, reported: int = 32 * MIB, free: int = 24 * GIB, known: Ceiling | None = None
    ) -> tuple[Ceiling | None, Source]:
        monkeypatch.setattr(Device, "available_bytes", lambda _: free)
        kept = Kept(tmp_path / "ceilings.json", {"cache": reported})
        method = Method(Device("cpu", 2, reported))
        source = Source(machine, method, kept, "fp32", Progress(60.0, lambda: machine.now))
        return ceiling_of(source, known, lambda: machine.now), source

    return measured


@pytest.mark.parametrize("free", [2 * GIB, 24 * GIB], ids=["2 GiB free", "24 GiB free"])
@pytest.mark.parametrize(
    "reported", [USUAL_CACHE_BYTES, 4 * MIB, 480 * MIB, 2 * GIB], ids=["none", "4 MiB", "480 MiB", "2 GiB"]
)
def test_any_reported_cache_and_memory_end_with_a_ceiling(measure: Measure, reported: int, free: int) -> None:
    machine = Machine()
    found, source = measure(machine, reported, free)
    assert machine.sets[0] == max(machine.sets) <= free // 4
    # The knee lies after 32 MiB; two more settle, and nothing between them and the largest is measured.
    assert sorted(machine.sets)[-2] == 128 * MIB
    assert [each["gbps"] for each in found["bandwidths"]] == [CACHE_GBPS] * 9 + [MEMORY_GBPS] * 3
    assert held_bytes(found["bandwidths"], reported) == 64 * MIB
    assert bool(source.left_out) == ((free < 24 * GIB and reported > 32 * MIB) or reported > 480 * MIB)
    assert (found["reused"], found["other_cpu_share"], found["measured"]) == (False, 0.0, source.parts[0]["measured"])


OTHERS = "MiB: other work disturbed it, 2 GB/s are less than the memory's"


@pytest.mark.parametrize(
    ("machine", "held", "largest_mib", "left_out"),
    [
        (Machine(held=480 * MIB), 480, 4096, []),
        (Machine(disturbed=(16 * MIB, 32 * MIB)), 64, 4096, [f"working set of {size} {OTHERS}" for size in (16, 32)]),
        (Machine(filled=1 * GIB), 64, 1024, ["working sets above 1,024 MiB: they take more than 3 s to fill"]),
    ],
    ids=["as large as reported", "disturbed", "slow to fill"],
)
def test_what_cores_hold_is_the_knee_of_what_could_be_measured(
    measure: Measure, machine: Machine, held: int, largest_mib: int, left_out: list[str]
) -> None:
    found, source = measure(machine, 480 * MIB)
    assert held_bytes(found["bandwidths"], 480 * MIB) == held * MIB
    last = found["bandwidths"][-1]
    assert (last["mib"], last["gbps"], source.left_out) == (largest_mib, MEMORY_GBPS, left_out)


def test_sets_end_when_their_time_is_over(measure: Measure) -> None:
    found, source = measure(Machine(held=GIB, seconds=SETS_S / 4), GIB)
    assert [each["mib"] for each in found["bandwidths"]] == [0.125, 0.25, 0.5, 1, 2, 4096]
    assert f"working sets of 4 MiB and more: the smaller ones have taken {SETS_S:g} s" in source.left_out


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (product_tflops, Unmeasured("skipped", "memory: needs 20,480 MiB, 20,408 MiB are free")),
        (bandwidth_gbps, Ended("not done within 120 s")),
        (call_us, Unmeasured("failed", "PyTorch: no")),
        (call_us, RuntimeError("ImportError: no libtorch")),
    ],
)
def test_a_part_that_cannot_be_measured_ends_no_run(
    measure: Measure, part: Callable[..., Any], reason: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    found, source = measure(Machine(fails={part: reason}))
    assert found is None
    assert all(str(reason) in each for each in source.left_out)
    assert f"left out {source.left_out[0]}" in capsys.readouterr().err


def test_ctrl_c_keeps_the_parts_and_the_next_run_measures_the_others(measure: Measure) -> None:
    with pytest.raises(KeyboardInterrupt):
        measure(Machine(fails={bandwidth_gbps: KeyboardInterrupt()}))  # type: ignore[dict-item]
    found, source = measure(Machine(fails={product_tflops: AssertionError("measured twice")}))
    assert (found["reused"], source.reused) == (True, True)
    whole, third = measure(Machine(fails={bandwidth_gbps: AssertionError("measured twice")}))
    assert (whole, third.parts) == (found, source.parts)


def test_a_second_precision_measures_no_bandwidths(measure: Measure) -> None:
    first, _ = measure(Machine())
    machine = Machine()
    second, _ = measure(machine, reported=16 * MIB, known=first)  # of which nothing is kept
    assert (machine.sets, second["bandwidths"]) == ([], first["bandwidths"])


def test_what_is_kept_costs_no_time(measure: Measure, tmp_path: Path) -> None:
    _, source = measure(Machine())
    device = source.method.device
    here, nothing = Kept(tmp_path / "ceilings.json", {"cache": device.cache_bytes}), Kept(tmp_path / "none.json", {})
    assert cost_s("fp32", device, here, first=True) == 0
    assert cost_s("fp32", device, nothing, first=True) > cost_s("fp32", device, nothing, first=False) > 0


@pytest.mark.parametrize(
    ("board", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10", "A10"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2"),
    ],
)
def test_a_board_has_its_own_sheet(board: str, name: str) -> None:
    assert sheet_of(board) == SHEETS[name]


@pytest.mark.parametrize("board", ["NVIDIA L40", "NVIDIA A10G", "NVIDIA A100-SXM4-96GB", "NVIDIA T400"])
def test_another_board_has_none(board: str) -> None:
    assert sheet_of(board) is None
    assert promised(board, "fp32") == (unknown(f"no data sheet of {board} is known here"),) * 2


def test_sheets_are_of_known_precisions_and_narrower_ones_are_not_slower() -> None:
    for sheet in SHEETS.values():
        rates = [sheet.tflops[name] for name in PRECISIONS if name in sheet.tflops]
        assert rates == sorted(rates)
        assert set(sheet.tflops) <= set(PRECISIONS)


def test_a_precision_that_the_board_lacks_has_a_reason() -> None:
    assert promised("Tesla T4", "bf16") == (unknown("the data sheet has no bf16"), 320)


def steps(*found: tuple[float, float]) -> list[Bandwidth]:
    """Bandwidths by MiB."""
    return [{"mib": mib, "gbps": gbps, "of": "copy"} for mib, gbps in found]


@pytest.mark.parametrize(("cache_mib", "largest_mib"), [(4, 256), (32, 256), (480, 4096), (2048, 16384)])
def test_the_largest_set_fills_the_reported_cache_several_times(cache_mib: int, largest_mib: int) -> None:
    found = working_sets(cache_mib * MIB)
    assert (found[0], found[-1]) == (SMALLEST_BYTES, largest_mib * MIB)
    assert all(after == 2 * before for before, after in pairwise(found))


def test_a_set_takes_a_quarter_of_the_free_memory_at_most() -> None:
    found, said = fitting(working_sets(480 * MIB), 2048 * MIB)
    assert found[-1] == 512 * MIB
    assert said == "working sets above 512 MiB: 25% of the free memory are 512 MiB"
    assert fitting(working_sets(4 * MIB), 2048 * MIB) == (working_sets(4 * MIB), None)
    assert fitting(working_sets(4 * MIB), 1000) == ([], "all working sets: 25% of the free memory are 0 KiB")


def test_two_sets_as_slow_as_memory_have_settled() -> None:
    assert not settled(steps((1, 10.0)), 10.0)
    assert not settled(steps((1, 12.0), (2, 10.0)), 10.0)
    assert settled(steps((1, 50.0), (2, 10.9), (4, 9.2)), 10.0)
    assert not settled(steps((1, 50.0), (2, 2.0), (4, 10.0)), 10.0)  # other work made it slower than memory


def test_a_set_slower_than_memory_was_disturbed_unless_small_calls_are_slow_there() -> None:
    assert disturbed(steps((8, 100.0)), 2.0, 10.0)
    assert not disturbed(steps((8, 100.0)), 9.0, 10.0)
    assert not disturbed(steps((0.125, 1.0)), 2.0, 10.0)  # a GPU's, whose call takes longer than its bytes


def test_a_small_call_s_ceiling_is_at_least_a_larger_one_s() -> None:
    assert falling(steps((2, 9.0), (1, 20.0), (0.5, 5.0))) == steps((0.5, 20.0), (1, 20.0), (2, 9.0))


@pytest.mark.parametrize(
    ("reported_mib", "held_mib"),
    [(480, 64), (2048, 64), (64, 64), (4, 64)],  # some machines report too small a cache
)
def test_the_cache_is_what_was_seen_of_it(reported_mib: int, held_mib: int) -> None:
    found = steps((1, 100.0), (16, 90.0), (32, 60.0), (64, 11.0), (128, 10.5), (2048, 10.0))
    assert held_bytes(found, reported_mib * MIB) == held_mib * MIB


def test_a_knee_that_other_work_has_moved_is_bounded() -> None:
    found = steps((1, 100.0), (1024, 60.0), (2048, 10.0))
    assert [held_bytes(found, reported * MIB) // MIB for reported in (4, 480, 4096)] == [128, 480, 2048]


def test_without_a_knee_or_a_measurement_no_large_cache_is_taken_for_granted() -> None:
    assert held_bytes(steps((0.125, 10.0), (2048, 10.0)), 480 * MIB) == MIB // 8
    assert held_bytes([], 2048 * MIB) == 32 * MIB
    assert held_bytes([], 4 * MIB) == 4 * MIB


def test_a_largest_set_that_the_cache_may_hold_is_doubted() -> None:
    assert doubt(1024 * MIB, 480 * MIB) is None
    assert doubt(512 * MIB, 480 * MIB) == (
        "working sets above 512 MiB, though the system reports a cache of 480 MiB: "
        "the memory may be slower than the slowest of them"
    )
