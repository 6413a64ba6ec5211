"""Calls from a thread of gevent's pool back into the event loop, for code that is not ours to choose.

Only the event loop's thread can start a process under gevent ("child watchers are only available on the default
loop"), and what is imported may start one: numpy asks `lscpu` or `getconf` for a CPU's features.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import gevent
from gevent import monkey
from gevent.hub import Hub

from servemark.workload import Workload

_END = object()


@dataclass(frozen=True)
class EventLoop:
    """The event loop of the thread that makes this; other threads have it call functions and wait for them."""

    hub: Hub = field(default_factory=gevent.get_hub)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the event loop's thread and return what it returns. Raises what it raises."""
        if gevent.get_hub() is self.hub:
            return function(*arguments)
        outcome: dict[str, Any] = {}
        # A lock of the operating system: gevent's would need an event loop in this thread.
        ended = monkey.get_original("_thread", "allocate_lock")()
        ended.acquire()

        def run() -> None:
            try:
                outcome["value"] = function(*arguments)
            except BaseException as error:
                outcome["error"] = error
            finally:
                ended.release()

        self.hub.loop.run_callback_threadsafe(gevent.spawn, run)
        ended.acquire()
        if "error" in outcome:
            raise outcome["error"]
        return outcome["value"]

    def each(self, function: Callable[..., Iterator[Any]], *arguments: Any) -> Iterator[Any]:
        """Yield what an iterator gives; it is made, and asked for each, in the event loop's thread."""
        found = self.call(lambda: iter(function(*arguments)))
        while (item := self.call(next, found, _END)) is not _END:
            yield item


def with_code_in_event_loop(workload: Workload) -> Workload:
    """Return a workload for another thread, whose own code runs in this one's event loop: its samples and readers."""
    loop = EventLoop()

    def bound(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        return lambda *arguments: loop.each(function, *arguments)

    read = bound(workload.read) if workload.read is not None else None
    return replace(workload, samples=bound(workload.samples), read=read)
