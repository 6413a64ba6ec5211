"""A CPU's instructions, and what they say of 8-bit sums."""

import pytest

from servemark.machine import instructions
from servemark.machine.instructions import cpu_features, int8_overflows


def test_instructions_of_intel_and_arm() -> None:
    assert cpu_features("processor\t: 0\nflags\t\t: fpu avx2\n") == {"fpu", "avx2"}
    assert cpu_features("Features\t: fp asimd bf16\n") == {"fp", "asimd", "bf16"}
    assert cpu_features("") == set()


@pytest.mark.parametrize(("features", "overflows"), [({"avx2"}, True), ({"avx2", "avx_vnni"}, False), (set(), True)])
def test_without_vnni_sums_of_8_bit_products_may_overflow(
    monkeypatch: pytest.MonkeyPatch, features: set[str], overflows: bool
) -> None:
    monkeypatch.setattr(instructions, "cpu_features", lambda: features)
    assert int8_overflows() is overflows
