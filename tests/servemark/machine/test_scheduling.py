"""A thread's scheduling is really changed, is not inherited, and is put back; what is refused says why."""

import ctypes
import errno
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from servemark.machine import scheduling
from servemark.machine.scheduling import (
    Attributes,
    GrantedPriority,
    Priority,
    least,
    named,
    ordinary,
    refusal,
    schedule,
)

T = TypeVar("T")
Apart = Callable[[Callable[[], T]], T]


@pytest.fixture
def apart() -> Iterator[Callable[[Callable[[], T]], T]]:
    """A thread of the test's own."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda call: pool.submit(call).result(timeout=60)


def test_the_priority_is_the_thread_s_own_and_is_put_back(apart: Apart[tuple[int, int, str, int]]) -> None:
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


def test_a_slice_is_the_kernel_s_word(apart: Apart[tuple[int, int]]) -> None:
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


def test_what_the_kernel_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, *_: object) -> None:
        if which == 0:
            raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(scheduling, "_call", refuse)
    assert refusal(Priority.REALTIME) == "Operation not permitted"


def test_a_kernel_without_slices_ignores_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "_call", lambda *_: None)
    assert "6.12" in str(refusal(Priority.SLICE))


def test_an_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "sparc")
    assert refusal(Priority.REALTIME) == "not known how to ask for it on sparc"


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
