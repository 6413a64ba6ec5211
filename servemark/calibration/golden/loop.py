"""The golden server's event loop: epoll, and timers that are not rounded up to whole milliseconds as asyncio's are."""

import heapq
import itertools
import select
import socket
import time
from collections.abc import Callable


class Loop:
    """Sockets with a handler each, and calls at a time of CLOCK_MONOTONIC."""

    def __init__(self, *, awake: bool) -> None:
        self._awake = awake
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def watch(self, watched: socket.socket, handler: Callable[[int], None]) -> None:
        """Call the handler with epoll's mask whenever the socket has something to read."""
        self._handlers[watched.fileno()] = handler
        self._poll.register(watched, select.EPOLLIN)

    def watch_writing(self, watched: socket.socket, on: bool) -> None:
        """Call its handler too whenever the socket takes more."""
        self._poll.modify(watched, select.EPOLLIN | select.EPOLLOUT * on)

    def forget(self, watched: socket.socket) -> None:
        """Call its handler no more."""
        if self._handlers.pop(watched.fileno(), None):
            self._poll.unregister(watched)

    def call_at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call once, not before a time."""
        heapq.heappush(self._timers, (time_ns, next(self._order), call))

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            self.turn()

    def turn(self) -> None:
        """Wait for what comes first, and handle all that is there."""
        timers = self._timers
        for descriptor, mask in self._events():
            if handler := self._handlers.get(descriptor):
                handler(mask)
        while timers and timers[0][0] <= time.monotonic_ns():
            heapq.heappop(timers)[2]()

    def _events(self) -> list[tuple[int, int]]:
        if not self._awake and not self._timers:
            return self._poll.poll()
        if not self._awake and (left_ns := self._timers[0][0] - time.monotonic_ns()) > 0:
            # epoll_wait(2) takes milliseconds; select(2) on its descriptor takes microseconds.
            select.select([self._poll], [], [], left_ns / 1e9)
        return self._poll.poll(0)
