"""Precisions by device, and the reasons for refusals."""

import pytest

from kernels.measurement.precisions import PRECISIONS, refusal

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
    assert {name for name in PRECISIONS if refusal(name, device, features, capability) is None} == has


def test_the_reason_names_what_is_needed() -> None:
    assert refusal("bf16", "cpu", AVX2, None) == "bf16 needs a CPU with avx512_bf16 or amx_bf16 or bf16 or sve_bf16"
    assert refusal("tf32", "cpu", AVX2, None) == "no CPU computes in tf32"
    assert refusal("fp8", "cuda:0", set(), (8, 0)) == "fp8 needs compute capability 8.9"
