"""Threads of the operating system, also where gevent has replaced Python's: what they do never runs on its loop."""

import importlib
import sys
from collections.abc import Callable
from typing import Any


def native(module: str, name: str) -> Any:
    """`module.name` as it was before gevent patched it."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey.get_original(module, name) if monkey else getattr(importlib.import_module(module), name)


def start_thread(run: Callable[[], object]) -> None:
    """Run a function in a thread that nobody has to wait for, and that no process waits for when it ends."""
    native("_thread", "start_new_thread")(run, ())
