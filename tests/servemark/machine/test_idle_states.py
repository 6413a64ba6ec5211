"""CPU latency QoS on a file in the place of the kernel's device."""

import os
import struct
from pathlib import Path

import pytest

from servemark.machine.idle_states import hold_awake, refusal


def test_zero_microseconds_are_held_until_it_is_closed(tmp_path: Path) -> None:
    device = tmp_path / "cpu_dma_latency"
    device.touch()
    held = hold_awake(device)
    assert device.read_bytes() == struct.pack("=i", 0)
    os.fstat(held)  # open: the kernel forgets the wish with the last one
    os.close(held)
    assert refusal(device) is None


@pytest.mark.parametrize(("make", "words"), [(False, "No such file"), (True, "Is a directory")])
def test_what_is_refused_is_told(tmp_path: Path, make: bool, words: str) -> None:
    device = tmp_path / "device"
    if make:
        device.mkdir()
    assert words in str(refusal(device))
