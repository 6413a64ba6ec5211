"""Kept parts: found by the same machine only, and never trusted where the file is damaged or somebody else's."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kernels.ceilings.kept import MAX_MACHINES, Kept, KeptPart, machine_of
from kernels.ceilings.parts import Part
from kernels.measurement.device import Device
from servemark import files
from servemark.machine.environment import collect

HERE = {"hostname": "here", "threads": 2}
PART = {"value": 1.0, "of": "gemm", "size_bytes": 0, "measured": "2026-11-23T12:00:00+00:00", "other_cpu_share": None}
QUIET, BESIDE_OTHERS = 0.01, 0.6
NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def value_of(found: KeptPart | None) -> float | None:
    return found["value"] if found else None


def kept(file: Path, machine: dict[str, Any] | None = None, **options: bool) -> Kept:
    return Kept(file, HERE if machine is None else machine, now=lambda: NOON, **options)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """After a run with a part that was measured on a quiet machine, and one that was not."""
    before = kept(tmp_path / "ceilings.json")
    before.keep("product", Part(0.1, "gemm"), QUIET)
    before.keep("call", Part(2.0, "copy"), BESIDE_OTHERS)
    return tmp_path / "ceilings.json"


def test_the_same_machine_finds_its_parts(file: Path) -> None:
    assert kept(file).get("product") == PART | {"value": 0.1, "other_cpu_share": QUIET}
    assert kept(file).get("another") is None


@pytest.mark.parametrize("other", [{"hostname": "there"}, {"threads": 4}, {"library": "torch 3"}])
def test_another_machine_library_or_number_of_threads_does_not(file: Path, other: dict[str, Any]) -> None:
    elsewhere = kept(file, HERE | other)
    assert elsewhere.get("product") is None
    elsewhere.keep("product", Part(9.0, "gemm"), QUIET)
    found = [kept(file, each).get("product") for each in (HERE, HERE | other)]
    assert [*map(value_of, found)] == [0.1, 9.0]


def test_what_was_measured_beside_other_work_is_for_its_own_run(file: Path) -> None:
    assert kept(file).get("call") is None
    here = kept(file)
    here.keep("call", Part(2.0, "copy"), BESIDE_OTHERS)
    here.keep("product", Part(0.2, "gemm"), QUIET)
    assert value_of(here.get("call")) == 2.0
    assert (kept(file).get("call"), value_of(kept(file).get("product"))) == (None, 0.2)


def test_all_are_measured_anew_where_that_is_asked_for(file: Path) -> None:
    anew = kept(file, anew=True)
    assert anew.get("product") is None
    anew.keep("product", Part(0.2, "gemm"), QUIET)
    assert value_of(kept(file).get("product")) == 0.2


def test_the_newest_machines_stay(file: Path) -> None:
    for number in range(MAX_MACHINES):
        kept(file, {"hostname": str(number)}).keep("product", Part(1.0, "gemm"), QUIET)
    assert kept(file).get("product") is None
    assert kept(file, {"hostname": "0"}).get("product") is not None


def test_a_machine_is_its_start_threads_library_and_settings(tmp_path: Path) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("b\n")
    device, around = Device("cpu", 2, 480 << 20), collect()
    found = machine_of(device, around, boot)
    assert (found["started"], found["threads"], found["cache_bytes"]) == ("b", 2, 480 << 20)
    assert found["library"].startswith("torch ")
    assert machine_of(device, around, tmp_path / "none")["started"] is None
    assert machine_of(device, {**around, "variables": {"OMP_NUM_THREADS": "7"}}, boot) != found
    json.dumps(found)


def holding(**changes: Any) -> str:
    return json.dumps({"machines": [{"machine": HERE, "parts": {"product": PART | changes}}]})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"machines": 5}',
        '{"machines": [5]}',
        "[" * 100_000,
        "\x00\xff",
        holding(value=0),
        holding(value=-1),
        holding(value=float("nan")),
        holding(value=float("inf")),
        holding(value="1e400"),
        holding(value=[]),
        holding(value=None),
        holding(size_bytes=-1),
        holding(size_bytes="x"),
        holding(measured="yesterday"),
        holding(measured=7),
        holding(other_cpu_share="much"),
        "1" * (files.TEXT_BYTES + 1),
    ],
    ids=lambda text: text[:40],
)
def test_a_damaged_file_is_measured_anew_and_written_anew(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ceilings.json"
    file.write_text(text, errors="surrogateescape")
    damaged = kept(file)
    assert damaged.get("product") is None
    assert "is not used, ceilings are measured anew" in capsys.readouterr().err
    damaged.keep("product", Part(3.0, "gemm"), QUIET)
    assert value_of(kept(file).get("product")) == 3.0


def test_a_fifo_or_a_device_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fifo, device = tmp_path / "fifo", tmp_path / "device"
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    for file in (fifo, device):
        kept(file).keep("product", Part(3.0, "gemm"), QUIET)
        assert "not a regular file" in capsys.readouterr().err
        assert kept(file).get("product") is not None
    assert Path("/dev/zero").is_char_device()


def test_what_cannot_be_kept_is_said_once_and_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = kept(tmp_path / "missing" / "ceilings.json")
    for name in ("product", "call"):
        assert nowhere.keep(name, Part(3.0, "gemm"), QUIET)["value"] == 3.0
    assert capsys.readouterr().err.count("ceilings are not kept for the next run") == 1
    assert nowhere.get("call") is not None
