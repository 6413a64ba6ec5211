"""Compiled from _stamped.c, where a C compiler was there; it takes 64 KiB at most."""

from loadgen.sut.kernel_clock import Receive, Stamped

class ClockOffset:
    offset: int
    due: int

def receiver(file: int, clock: ClockOffset, channel: Stamped, /) -> Receive: ...
