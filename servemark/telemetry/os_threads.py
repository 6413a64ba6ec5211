"""Threads of the operating system, also where gevent has replaced Python's: what they do never runs on its loop."""

import importlib
import sys
from collections.abc import Callable
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
