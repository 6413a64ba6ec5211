"""Threads of the operating system, also where gevent has replaced Python's: what they do never runs on its loop."""

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def native(module: str, name: str) -> Any:
    """`module.name` as it was before gevent patched it."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey.get_original(module, name) if monkey else getattr(importlib.import_module(module), name)


running: set[int] = set()
"""The kernel's numbers of the threads that `start_thread` has started and that have not ended."""
at_start: list[Callable[[int], object]] = []
"""Called with its number in each thread that begins."""


def start_thread(run: Callable[[], object]) -> None:
    """Run a function in a thread that nobody has to wait for, and that no process waits for when it ends."""

    def numbered() -> None:
        number = native("_thread", "get_native_id")()
        running.add(number)
        try:
            for each in at_start:
                each(number)
            run()
        finally:
            running.discard(number)

    native("_thread", "start_new_thread")(numbered, ())


MAX_SHARE = 0.02
"""Of one core. What would take more of it is done less often."""
_NAP_S = 0.2


@dataclass
class Cost:
    """Cost of a periodic call so far."""

    beats: int = 0
    skipped: int = 0
    """Beats that were due and left out: the one before took too long, or too much of the CPU."""
    cpu_s: float = 0.0
    """CPU time of the thread."""
    longest_s: float = 0.0
    """The longest beat."""


class PeriodPlan:
    """When the next beat is due. A late one is left out, and never made up for."""

    def __init__(self, period_s: float, start_s: float, max_share: float = MAX_SHARE) -> None:
        self.cost = Cost()
        self._period_s, self._start_s, self._max_share = period_s, start_s, max_share
        self._number = 0

    def next_s(self, began_s: float, ended_s: float, cpu_s: float) -> float:
        """Return the time of the next beat, by the duration and the CPU time of the last one."""
        self.cost.beats += 1
        self.cost.cpu_s += cpu_s
        self.cost.longest_s = max(self.cost.longest_s, ended_s - began_s)
        earliest_s = max(ended_s, began_s + cpu_s / self._max_share)
        number = int((earliest_s - self._start_s) / self._period_s) + 1
        self.cost.skipped += number - self._number - 1
        self._number = number
        return self._start_s + number * self._period_s


class PeriodicThread:
    """Does something after `first_s` and then every `period_s`, until it is told to stop. It must not raise."""

    def __init__(
        self, act: Callable[[], None], period_s: float, max_share: float = MAX_SHARE, *, first_s: float = 0.0
    ) -> None:
        self._act = act
        self._next_s = time.monotonic() + first_s
        self._pace = PeriodPlan(period_s, self._next_s, max_share)
        self.cost = self._pace.cost
        self._stopped = False
        start_thread(self._run)

    def stop(self) -> None:
        """End after the beat that goes on. Nobody waits for it: a driver may hang."""
        self._stopped = True

    def _run(self) -> None:
        sleep = native("time", "sleep")
        while True:
            while not self._stopped and (left_s := self._next_s - time.monotonic()) > 0:
                sleep(min(left_s, _NAP_S))
            if self._stopped:
                return
            began_s, cpu_s = time.monotonic(), time.thread_time()
            self._act()
            self._next_s = self._pace.next_s(began_s, time.monotonic(), time.thread_time() - cpu_s)
