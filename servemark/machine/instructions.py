"""The instructions of this machine's CPU, by the names that the Linux kernel gives them."""

from pathlib import Path

VNNI = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "dotprod", "asimddp"})
"""Each sums 8-bit products in 32 bits. Without any, x86 sums pairs of them in 16, which overflow."""


def cpu_features(text: str | None = None) -> set[str]:
    """Return the `flags` of /proc/cpuinfo, or `Features` on Arm; an empty set if it cannot be read."""
    if text is None:
        try:
            text = Path("/proc/cpuinfo").read_text(errors="replace")
        except OSError:
            return set()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"flags", "Features"}:
            return set(value.split())
    return set()


def int8_overflows() -> bool:
    """Return True if sums of 8-bit products may overflow on this CPU."""
    return not VNNI & cpu_features()
