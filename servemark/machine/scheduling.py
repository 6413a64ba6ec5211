"""Promptness of a thread that is to wake up: its scheduling by Linux, and the sleep of idle cores.

A thread has real-time round robin, a shorter slice, or what every thread has: sched(7), sched_setattr(2). Slices of a
thread's own: Linux 6.12, EEVDF, whose `sched_runtime` of a SCHED_OTHER thread is the slice that it asks for. A shorter
one has an earlier deadline, so the thread runs sooner after it has woken up.

A process that holds /dev/cpu_dma_latency open lets every core wake up within that time (CPU latency QoS:
admin-guide/pm/cpuidle, power/pm_qos_interface). At 0 idle cores poll, in a virtual machine too, whose host otherwise
gives them to somebody else and takes a while to give them back. cyclictest and tuned's latency-performance profile do
the same.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NotRequired, Self, TypedDict

SHORTEST_SLICE_NS = 100_000
"""The kernel takes no shorter one."""
ROUND_ROBIN_PRIORITY = 1
"""The lowest: it goes before ordinary threads and after every other real-time one."""
_RESET_ON_FORK = 1
# <asm/unistd.h>: sched_setattr and sched_getattr.
_CALLS = {
    "x86_64": (314, 315),
    "i386": (351, 352),
    "i686": (351, 352),
    "aarch64": (274, 275),
    "riscv64": (274, 275),
    "loongarch64": (274, 275),
    "armv7l": (380, 381),
    "ppc64le": (355, 356),
    "s390x": (345, 346),
}
AWAKE = Path("/dev/cpu_dma_latency")
"""Keeps cores awake while it is held open."""


class Priority(StrEnum):
    """Priority of a thread that has woken up, the best first."""

    REALTIME = "realtime"
    SLICE = "slice"
    NORMAL = "normal"


PriorityName = Literal["realtime", "slice", "normal"]


class PriorityFigures(TypedDict):
    """Priority of a thread."""

    priority: NotRequired[
        Annotated[
            PriorityName,
            "Of the sending thread at the end: real-time round robin, the shortest slice, or as every thread. "
            "Of several processes the least.",
        ]
    ]
    priority_note: NotRequired[Annotated[str, "Why it is no better one. Absent: it is the best."]]


@dataclass(frozen=True)
class GrantedPriority:
    """Priority of a thread, and the reason why it is not a better one."""

    priority: Priority = Priority.NORMAL
    note: str | None = None

    def to_dict(self) -> PriorityFigures:
        """As result.json holds it."""
        found: PriorityFigures = {"priority": self.priority.value}
        if self.note:
            found["priority_note"] = self.note
        return found


def least(several: Iterable[tuple[str, str | None, str | None]]) -> GrantedPriority:
    """The least priority of several, each with its name and note; None is one that is not known."""
    known = [(name, Priority(priority), note) for name, priority, note in several if priority is not None]
    if not known:
        return GrantedPriority()
    name, priority, note = max(known, key=lambda each: list(Priority).index(each[1]))
    return GrantedPriority(priority, note and f"{name}: {note}")


class Attributes(ctypes.Structure):
    """`struct sched_attr` of a thread, 0 for the calling one; times in ns."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )
    policy: int
    flags: int
    nice: int
    priority: int
    runtime: int

    @classmethod
    def now(cls, thread: int = 0) -> Self:
        """Those that the thread has. Raises OSError where the kernel cannot say."""
        found = cls()
        _call(1, thread, ctypes.byref(found), ctypes.sizeof(found), 0)
        return found

    def apply(self, thread: int = 0) -> None:
        """Give them to the thread. Children and threads that it starts have the usual ones. Raises OSError."""
        self.flags |= _RESET_ON_FORK  # which an unprivileged thread cannot take back
        _call(0, thread, ctypes.byref(self), 0)


def schedule(priority: Priority, before: Attributes, thread: int = 0) -> None:
    """Schedule a thread so, 0: this one; `before` is what it had at first, nice value included. Raises OSError."""
    wanted = Attributes(ctypes.sizeof(Attributes), before.policy, before.flags, before.nice, before.priority)
    if priority is Priority.REALTIME:
        wanted.policy, wanted.priority, wanted.nice = os.SCHED_RR, ROUND_ROBIN_PRIORITY, 0
    elif priority is Priority.SLICE:
        wanted.runtime = SHORTEST_SLICE_NS
    wanted.apply(thread)
    if priority is Priority.SLICE and Attributes.now(thread).runtime != SHORTEST_SLICE_NS:
        raise OSError(errno.ENOTSUP, "this kernel has no slice of a thread's own (Linux 6.12)")


def refusal(priority: Priority) -> str | None:
    """Return the reason why the calling thread may not get a priority, None if it may; the thread is left as it was."""
    try:
        before = Attributes.now()
        try:
            schedule(priority, before)
        finally:
            schedule(Priority.NORMAL, before)
    except OSError as error:
        return error.strerror or str(error)
    return None


def is_realtime(found: Attributes) -> bool:
    """Return True if a thread precedes all ordinary ones."""
    return found.policy in (os.SCHED_FIFO, os.SCHED_RR)


def ordinary(found: Attributes) -> bool:
    """Return True if nobody has chosen another scheduling for the thread, by chrt or nice."""
    return found.policy == os.SCHED_OTHER and found.nice <= 0


def named(found: Attributes) -> str:
    """A thread's scheduling in words: "SCHED_FIFO 10", "nice 15"."""
    names = {getattr(os, name): name for name in ("SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "SCHED_IDLE")}
    if found.policy == os.SCHED_OTHER:
        return f"nice {found.nice}"
    name = names.get(found.policy, f"policy {found.policy}")
    return f"{name} {found.priority}" if found.priority else name


def hold_awake(device: Path = AWAKE) -> int:
    """Keep all cores out of idle states until the file descriptor that it returns is closed. Raises OSError."""
    descriptor = os.open(device, os.O_WRONLY)
    try:
        os.write(descriptor, struct.pack("=i", 0))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def awake_refusal(device: Path = AWAKE) -> str | None:
    """Return the reason why cores cannot be kept awake by this process; None if they can."""
    try:
        os.close(hold_awake(device))
    except OSError as error:
        return f"{device}: {error.strerror}"
    return None


def _call(which: int, thread: int, *arguments: object) -> None:
    """sched_setattr (0) or sched_getattr (1) of a thread; glibc has no function for them."""
    numbers = _CALLS.get(platform.machine())
    if numbers is None:
        raise OSError(errno.ENOSYS, f"not known how to ask for it on {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(numbers[which]), thread, *arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
