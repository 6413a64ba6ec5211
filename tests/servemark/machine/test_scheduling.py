"""A thread's scheduling is really changed, is not inherited, and is put back; what is refused says why."""

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from servemark.machine import scheduling
from servemark.machine.scheduling import (
    Attributes,
    GrantedPriority,
    Priority,
    awake_refusal,
    hold_awake,
    least,
    named,
    ordinary,
    refusal,
    schedule,
)

T = TypeVar("T")


def apart(call: Callable[[], T]) -> T:
    """Call in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(timeout=60)


def test_the_priority_is_the_thread_s_own_and_is_put_back() -> None:
    if refusal(Priority.REALTIME):
        pytest.skip(f"real time: {refusal(Priority.REALTIME)}")

    def change() -> tuple[int, int, str, int]:
        before = Attributes.now()
        schedule(Priority.REALTIME, before)
        try:
            own = Attributes.now()
            ask = "import os; print(os.sched_getscheduler(0))"
            child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
        finally:
            schedule(Priority.NORMAL, before)
        return own.policy, own.priority, child.stdout.strip(), Attributes.now().policy

    mine = os.sched_getscheduler(0)
    assert apart(change) == (os.SCHED_RR, 1, str(os.SCHED_OTHER), mine & 0xFF)
    assert os.sched_getscheduler(0) == mine


def test_a_slice_is_the_kernel_s_word() -> None:
    if refusal(Priority.SLICE):
        pytest.skip(f"slice: {refusal(Priority.SLICE)}")

    def change() -> tuple[int, int]:
        before = Attributes.now()
        schedule(Priority.SLICE, before)
        during = Attributes.now().runtime
        schedule(Priority.NORMAL, before)
        return during, Attributes.now().runtime

    during, after = apart(change)
    assert during == scheduling.SHORTEST_SLICE_NS < after


def test_what_is_refused_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, *_: object) -> None:
        if which == 0:
            raise OSError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(platform, "machine", lambda: "sparc")
        assert refusal(Priority.REALTIME) == "not known how to ask for it on sparc"
    monkeypatch.setattr(scheduling, "_call", refuse)
    assert refusal(Priority.REALTIME) == "Operation not permitted"
    monkeypatch.setattr(scheduling, "_call", lambda *_: None)  # a kernel without slices ignores what it is asked for
    assert "6.12" in str(refusal(Priority.SLICE))


@pytest.mark.parametrize(
    ("policy", "nice", "priority", "words", "usual"),
    [
        (os.SCHED_OTHER, 0, 0, "nice 0", True),
        (os.SCHED_OTHER, -5, 0, "nice -5", True),
        (os.SCHED_OTHER, 15, 0, "nice 15", False),
        (os.SCHED_FIFO, 0, 10, "SCHED_FIFO 10", False),
        (os.SCHED_BATCH, 0, 0, "SCHED_BATCH", False),
        (6, 0, 0, "policy 6", False),
    ],
)
def test_what_somebody_chose_is_seen(policy: int, nice: int, priority: int, words: str, *, usual: bool) -> None:
    found = Attributes(ctypes.sizeof(Attributes), policy, 0, nice, priority)
    assert (named(found), ordinary(found)) == (words, usual)


def test_of_several_the_least() -> None:
    several = [("a", Priority.REALTIME, None), ("b", Priority.NORMAL, "not permitted"), ("c", Priority.SLICE, "x")]
    assert least(several) == GrantedPriority(Priority.NORMAL, "b: not permitted")
    assert least([("a", None, None)]) == GrantedPriority()
    assert least(several[:1]) == GrantedPriority(Priority.REALTIME)


def test_cores_are_held_awake_until_it_is_closed(tmp_path: Path) -> None:
    """A file in the place of the kernel's device."""
    device = tmp_path / "cpu_dma_latency"
    assert "No such file" in str(awake_refusal(device))
    device.touch()
    held = hold_awake(device)
    assert device.read_bytes() == struct.pack("=i", 0)
    os.fstat(held)  # open: the kernel forgets the wish with the last one
    os.close(held)
    assert awake_refusal(device) is None
    assert "Is a directory" in str(awake_refusal(tmp_path))
