"""Ceilings on machines that report any cache: what is measured, left out, kept, and never ends the run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kernels.ceilings import kept as module
from kernels.ceilings.ceiling import SETS_S, SHEETS, ceiling_of, cost_s, promised, sheet_of
from kernels.ceilings.kept import Kept, Source
from kernels.ceilings.parts import Part, bandwidth_gbps, call_us, product_tflops
from kernels.ceilings.working_sets import held_bytes
from kernels.measurement.case import MIB, Method, Unmeasured
from kernels.measurement.device import PRECISIONS, USUAL_CACHE_BYTES, Device
from servemark.campaign import Progress
from servemark.machine.own_process import Ended, OwnProcess
from servemark.results.schema.kernels import Ceiling
from servemark.stats.unknown import unknown

GIB = 1 << 30
CACHE_GBPS, MEMORY_GBPS = 100.0, 10.0


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


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "watching", lambda: None)
    monkeypatch.setattr(module, "taken", lambda _: 0.0)


def measured(
    machine: Machine,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    reported: int = 32 * MIB,
    free: int = 24 * GIB,
    known: Ceiling | None = None,
) -> tuple[Ceiling | None, Source]:
    device = Device("cpu", 2, reported)
    monkeypatch.setattr(Device, "available_bytes", lambda _: free)
    kept = Kept(folder / "ceilings.json", {"cache": reported})
    source = Source(machine, Method(device), kept, "fp32", Progress(60.0, lambda: machine.now))
    return ceiling_of(source, known, lambda: machine.now), source


@pytest.mark.parametrize("free", [2 * GIB, 24 * GIB], ids=["2 GiB free", "24 GiB free"])
@pytest.mark.parametrize(
    "reported", [USUAL_CACHE_BYTES, 4 * MIB, 480 * MIB, 2 * GIB], ids=["none", "4 MiB", "480 MiB", "2 GiB"]
)
def test_any_reported_cache_and_memory_end_with_a_ceiling(
    reported: int, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    found, source = measured(machine, tmp_path, monkeypatch, reported=reported, free=free)
    assert found
    assert machine.sets[0] == max(machine.sets) <= free // 4
    # The knee lies after 32 MiB; two more settle, and nothing between them and the largest is measured.
    assert sorted(machine.sets)[-2] == 128 * MIB
    assert [each["gbps"] for each in found["bandwidths"]] == [CACHE_GBPS] * 9 + [MEMORY_GBPS] * 3
    assert held_bytes(found["bandwidths"], reported) == 64 * MIB
    assert bool(source.left_out) == ((free < 24 * GIB and reported > 32 * MIB) or reported > 480 * MIB)


def test_a_cache_as_large_as_reported_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(held=480 * MIB)
    found, _ = measured(machine, tmp_path, monkeypatch, reported=480 * MIB)
    assert found
    assert held_bytes(found["bandwidths"], 480 * MIB) == 480 * MIB
    assert found["bandwidths"][-1]["gbps"] == MEMORY_GBPS


def test_what_other_work_has_disturbed_is_neither_a_knee_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(disturbed=(16 * MIB, 32 * MIB))
    found, source = measured(machine, tmp_path, monkeypatch, reported=480 * MIB)
    assert found
    assert held_bytes(found["bandwidths"], 480 * MIB) == 64 * MIB
    assert source.left_out[0].startswith("working set of 16 MiB: other work disturbed it, 2 GB/s are less")


def test_what_takes_too_long_to_fill_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, source = measured(Machine(filled=1 * GIB), tmp_path, monkeypatch, reported=480 * MIB)
    assert found
    assert found["bandwidths"][-1]["mib"] == 1024
    assert source.left_out == ["working sets above 1,024 MiB: they take more than 3 s to fill"]


def test_sets_end_when_their_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(held=GIB, seconds=SETS_S / 4)
    found, source = measured(machine, tmp_path, monkeypatch, reported=GIB)
    assert found
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
    part: Callable[..., Any],
    reason: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, source = measured(Machine(fails={part: reason}), tmp_path, monkeypatch)
    assert found is None
    assert all(str(reason) in each for each in source.left_out)
    assert f"left out {source.left_out[0]}" in capsys.readouterr().err


def test_without_room_for_any_set_there_is_no_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, source = measured(Machine(), tmp_path, monkeypatch, free=1000)
    assert found is None
    assert source.left_out == ["all working sets: 25% of the free memory are 0 KiB"]


def test_ctrl_c_keeps_the_parts_and_the_next_run_measures_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(Machine(fails={bandwidth_gbps: KeyboardInterrupt()}), tmp_path, monkeypatch)  # type: ignore[dict-item]
    again = Machine(fails={product_tflops: AssertionError("measured twice")})
    found, source = measured(again, tmp_path, monkeypatch)
    assert found
    assert (found["reused"], source.reused) == (True, True)
    whole, third = measured(Machine(fails={bandwidth_gbps: AssertionError("measured twice")}), tmp_path, monkeypatch)
    assert whole == found
    assert third.parts == source.parts


def test_a_first_run_is_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, source = measured(Machine(), tmp_path, monkeypatch)
    assert found
    assert found["reused"] is False
    assert found["measured"] == source.parts[0]["measured"]
    assert found["other_cpu_share"] == 0.0


def test_a_second_precision_measures_no_bandwidths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = measured(Machine(), tmp_path, monkeypatch)
    machine = Machine()
    second, _ = measured(machine, tmp_path / "elsewhere", monkeypatch, known=first)
    assert first
    assert second
    assert (machine.sets, second["bandwidths"]) == ([], first["bandwidths"])


def test_what_is_kept_costs_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, source = measured(Machine(), tmp_path, monkeypatch)
    device, file = source.method.device, tmp_path / "ceilings.json"
    here = Kept(file, {"cache": device.cache_bytes})
    assert cost_s("fp32", device, here, first=True) == 0
    nothing = Kept(tmp_path / "none.json", {})
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
