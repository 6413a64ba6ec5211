"""Connections that carry one request each."""

import time
from typing import Any

from loadgen.sut.channel import Answer, State
from loadgen.sut.connection_times import ConnectionTimes


def used_once(channel: Any, times: ConnectionTimes) -> Any:
    """A class of channels like `channel` that carry one request, and stamp the parts of their connection.

    A request counts as sent when its connection is begun: the handshake is a part of its service time.
    """

    class UsedOnce(channel):  # type: ignore[misc]
        __slots__ = ("_begun", "_connected", "_first", "_ready")

        def open(self) -> None:
            self._begun = time.monotonic_ns()
            self._connected = self._ready = self._first = 0
            super().open()

        def connected(self) -> None:
            if not self._connected:
                self._connected = time.monotonic_ns()
            super().connected()
            if self.state is not State.CONNECTING:
                self._ready = time.monotonic_ns()

        def start(self) -> None:
            own: Any = self
            own.sent = self._begun
            super().start()

        def readable(self) -> Answer | None:
            answer: Answer | None = super().readable()
            if not self._first and (answer is not None or self.answer_begun):
                self._first = self.done if answer is not None else self._clock.came(self)
            if answer is not None:
                own: Any = self
                own.state = State.SPENT
                if answer.error is None and self.done <= self.deadline:
                    times.take(self.scheduled, self._begun, self._connected, self._ready, self._first, self.done)
            return answer

    return UsedOnce
