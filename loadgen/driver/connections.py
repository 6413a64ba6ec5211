"""Channels to a target, some of them opened before the load, and the epoll that watches them."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from gevent.monkey import get_original

from loadgen.sut.channel import WRITE, Channel, State

_epoll_class = get_original("select", "epoll")

MS = 1_000_000
OPEN_WITHIN_NS = 1000 * MS
"""Maximum wait for the handshakes of channels that are opened ahead."""


class Idle(Protocol):
    """Idle channels."""

    def pop(self) -> Channel:
        """Take the next one. Raises IndexError where there is none."""

    def append(self, channel: Channel, /) -> None:
        """Add one."""

    def remove(self, channel: Channel, /) -> None:
        """Take a certain one."""

    def clear(self) -> None:
        """Forget all."""

    def __iter__(self) -> Iterator[Channel]:
        """Go through all."""


class _InTurn(deque[Channel]):
    """Idle channels of which the one that waits longest is the next."""

    def pop(self) -> Channel:  # type: ignore[override]
        """Take the first."""
        return self.popleft()


class Connections:
    """The channels of one driver, `most` at a time, which `connect` makes.

    The channel that was used last is the next, whose memory is in the cache, unless they come `in_turn`.
    """

    def __init__(self, connect: Callable[[], Channel], most: int, *, in_turn: bool = False) -> None:
        self.connect, self.most = connect, most
        self.epoll = _epoll_class()
        self.channels: dict[int, Channel] = {}
        """Each open channel by its file descriptor."""
        self.idle: Idle = _InTurn() if in_turn else []

    def open_ahead(self, count: int) -> None:
        """Open channels, so that the first requests do not pay for the handshake."""
        for _ in range(min(count, self.most) - len(self.channels)):
            channel = self.connect()
            try:
                self.open(channel)
            except Exception:  # the first request meets it too, and its error is recorded
                channel.close()
                return
        deadline = time.monotonic_ns() + OPEN_WITHIN_NS
        while time.monotonic_ns() < deadline and any(c.state is State.CONNECTING for c in self.channels.values()):
            for fd, event in self.epoll.poll(0.05):
                self._go_on(self.channels[fd], event)

    def _go_on(self, channel: Channel, event: int) -> None:
        try:
            if channel.state is not State.CONNECTING and event & WRITE:
                channel.writable()
            else:
                self.attend(channel)
            if channel.wants != channel.watched:
                self.watch(channel)
        except Exception:  # as above
            self.drop(channel)

    def attend(self, channel: Channel) -> None:
        """Let a channel without a request connect, or take what came unasked. Raises what the channel raises."""
        if channel.state is State.CONNECTING:
            channel.connected()
            if channel.state is not State.CONNECTING:
                self.idle.append(channel)
        elif not channel.on_unsolicited_data():
            self.drop(channel)

    def open(self, channel: Channel) -> None:
        """Begin to connect a channel."""
        channel.open()
        self.channels[channel.fd] = channel
        channel.watched = channel.wants
        self.epoll.register(channel.fd, channel.wants)

    def watch(self, channel: Channel) -> None:
        """Wait for what the channel wants now."""
        channel.watched = channel.wants
        self.epoll.modify(channel.fd, channel.wants)

    def drop(self, channel: Channel) -> None:
        """Close a channel that cannot be used any more."""
        self.channels.pop(channel.fd, None)
        if channel in self.idle:
            self.idle.remove(channel)
        channel.close()
        channel.watched = channel.wants

    def close(self) -> None:
        """Close all of them."""
        for channel in [*self.channels.values()]:
            channel.close()
        self.channels.clear()
        self.idle.clear()
        self.epoll.close()
