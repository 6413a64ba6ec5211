"""Several servers that take a run's requests in turn (round robin), and the figures of each."""

import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.driver.connections import Connections
from loadgen.sut.channel import Channel, Outcome, Payload
from servemark.stats.histogram import Histogram


@dataclass(frozen=True, slots=True)
class OfServer(Payload):
    """A request, and the number of the server that takes it."""

    server: int = 0


def on_server(channel: Any) -> Any:
    """A class of channels like `channel`, each to one of several servers, whose number is set after it is made.

    A payload's request may be a tuple with a form for each server: over HTTP they differ in their Host field.
    """

    class OnServer(channel):  # type: ignore[misc]
        __slots__ = ("server",)

        def open(self) -> None:
            self._claim()
            super().open()

        def start(self) -> None:
            self._claim()
            super().start()

        def _claim(self) -> None:
            """Note in the payload which server gets it: also a connection that is refused has an outcome."""
            channel: Any = self
            payload = channel.payload
            if payload is not None and not isinstance(payload, OfServer):
                request = payload.request
                own = request[self.server] if isinstance(request, tuple) else request
                channel.payload = OfServer(
                    own, payload.golden_rows, payload.examples, alone=payload.alone, server=self.server
                )

    return OnServer


class _Turns:
    """Idle channels of each server. The next one is that of the server whose turn it is, whatever the others do.

    So a server that is slow, or gone, gets its share all the same.
    """

    def __init__(self, connect: Callable[[int], Channel], servers: int) -> None:
        self._connect = connect
        self._idle: list[list[Any]] = [[] for _ in range(servers)]
        self._next = itertools.cycle(range(servers))

    def connect(self) -> Channel:
        """Make a channel to the server whose turn it is."""
        return self._connect(next(self._next))

    def pop(self) -> Channel:
        """Take an idle channel of the server whose turn it is, or make one."""
        server = next(self._next)
        idle = self._idle[server]
        channel: Channel = idle.pop() if idle else self._connect(server)
        return channel

    def append(self, channel: Any) -> None:
        self._idle[channel.server].append(channel)

    def remove(self, channel: Any) -> None:
        self._idle[channel.server].remove(channel)

    def clear(self) -> None:
        for each in self._idle:
            each.clear()

    def __iter__(self) -> Iterator[Channel]:
        return itertools.chain.from_iterable(self._idle)

    def __bool__(self) -> bool:
        """Return True: where no channel is idle, `pop` makes one."""
        return True


class RoundRobin(Connections):
    """Connections to several servers; `connect` makes a channel to the server with a number.

    At most `most` requests are in flight. A server may have as many connections.
    """

    def __init__(self, connect: Callable[[int], Channel], most: int, servers: int) -> None:
        turns = _Turns(connect, servers)
        super().__init__(turns.connect, most)
        self.idle = turns


class ServerRecorder:
    """Requests that each of several servers took: their latencies, and their failures by kind."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = urls
        self.latency = [Histogram() for _ in urls]
        self.errors: list[Counter[str]] = [Counter() for _ in urls]
        self._answered = array("q")
        self._failed: list[tuple[int, int, str]] = []

    def take(self, outcome: Outcome) -> None:
        """Take one outcome."""
        payload = outcome.payload
        if isinstance(payload, OfServer):
            if outcome.error is None:
                self._answered.extend((payload.server, outcome.scheduled, outcome.done))
            else:
                self._failed.append((payload.server, outcome.scheduled, outcome.error))

    def flush(self, start: int, end: int) -> None:
        """Count what has been gathered, for an interval in ns."""
        rows = np.array(self._answered, dtype=np.int64).reshape(-1, 3)
        failed, self._failed = self._failed, []
        del self._answered[:]
        rows = rows[(rows[:, 1] >= start) & (rows[:, 1] < end)]
        for server, latency in enumerate(self.latency):
            own = rows[rows[:, 0] == server]
            latency.record(own[:, 2] - own[:, 1])
        for server, scheduled, kind in failed:
            if start <= scheduled < end:
                self.errors[server][kind] += 1
                self.latency[server].failed += 1
