"""Devices: what is there, how large a cache is, which instructions a CPU has."""

import sys
from pathlib import Path

import pytest

from kernels.measurement import device as module
from kernels.measurement.device import PRECISIONS, USUAL_CACHE_BYTES, Device, cpu_cache_bytes
from servemark.errors import OptionError
from servemark.frameworks import DISTRIBUTIONS


def test_the_largest_cache_counts(tmp_path: Path) -> None:
    for number, size in enumerate(["32K", "512K", "4M", "broken"]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{size}\n")
    assert cpu_cache_bytes(tmp_path) == 4 << 20
    assert cpu_cache_bytes(tmp_path / "none") is None


@pytest.mark.parametrize(("text", "size", "reported"), [("491520K", 480 << 20, True), (None, USUAL_CACHE_BYTES, False)])
def test_a_cache_that_the_system_does_not_report_is_said_to_be_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, size: int, reported: bool
) -> None:
    if text:
        (tmp_path / "index3").mkdir()
        (tmp_path / "index3" / "size").write_text(f"{text}\n")
    monkeypatch.setattr(module, "cpu_cache_bytes", lambda: cpu_cache_bytes(tmp_path))
    found = Device.named("cpu")
    assert (found.cache_bytes, found.cache_reported) == (size, reported)


def test_the_cpu_is_there() -> None:
    found = Device.named("cpu")
    assert (found.is_gpu, found.lacks("fp32")) == (False, None)
    assert found.cores >= 1
    assert found.available_bytes() > 1 << 20


@pytest.mark.parametrize(("name", "words"), [("tpu", "is unknown"), ("cuda:x", "is unknown"), ("cuda:99", "sees")])
def test_a_device_that_is_not_there_is_an_error(name: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Device.named(name)


def test_without_pytorch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DISTRIBUTIONS, "torch", ())
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(OptionError, match=r"pip install 'servemark\[torch\]'"):
        Device.named("cpu")


AVX2 = {"fma", "avx2"}
ARM = {"asimd", "asimdhp", "asimddp", "bf16"}


@pytest.mark.parametrize(
    ("device", "features", "capability", "has"),
    [
        ("cpu", AVX2, None, {"fp32", "int8"}),
        ("cpu", AVX2 | {"avx512_bf16"}, None, {"fp32", "int8", "bf16"}),
        ("cpu", AVX2 | {"amx_bf16", "amx_fp16"}, None, {"fp32", "int8", "bf16", "fp16"}),
        ("cpu", ARM, None, {"fp32", "int8", "bf16", "fp16"}),
        ("cpu", set(), None, {"fp32"}),
        ("cuda:0", AVX2, (6, 1), {"fp32"}),
        ("cuda:0", AVX2, (7, 0), {"fp32", "fp16"}),
        ("cuda:0", AVX2, (7, 5), {"fp32", "fp16", "int8"}),
        ("cuda:0", AVX2, (8, 0), {"fp32", "tf32", "bf16", "fp16", "int8"}),
        ("cuda:0", AVX2, (9, 0), set(PRECISIONS)),
    ],
)
def test_a_device_has_what_its_instructions_or_its_compute_capability_say(
    device: str, features: set[str], capability: tuple[int, int] | None, has: set[str]
) -> None:
    found = Device(device, 1, 0, frozenset(features), capability)
    assert {name for name in PRECISIONS if found.lacks(name) is None} == has


def test_the_reason_names_what_is_needed() -> None:
    cpu = Device("cpu", 1, 0, frozenset(AVX2))
    assert cpu.lacks("bf16") == "bf16 needs a CPU with avx512_bf16 or amx_bf16 or bf16 or sve_bf16"
    assert cpu.lacks("tf32") == "no CPU computes in tf32"
    assert Device("cuda:0", 1, 0, capability=(8, 0)).lacks("fp8") == "fp8 needs compute capability 8.9"
