"""The event loop that sends requests when they are due, over many channels, from one greenlet.

A greenlet for each channel costs a switch through gevent's hub per request, and gevent's timers tick in whole
milliseconds. This loop asks epoll itself, waits with microsecond timers, and every few milliseconds lets Locust's own
greenlets (statistics, web UI, heartbeats) run.
"""

import ctypes
import itertools
import time
import traceback
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from select import EPOLLET

import numpy as np
import numpy.typing as npt
from gevent.monkey import get_original

from loadgen.driver.connections import MS, Connections
from loadgen.load.arrivals import Arrivals
from loadgen.sut.channel import READ, WRITE, Channel, ConnectionFailed, Outcome, Payload, State, Times

_select = get_original("select", "select")

# On Python 3.11 a look-up of an Enum's member takes 70 ns: six of them would be 4 % of a request.
_CLOSED, _CONNECTING, _IDLE = State.CLOSED, State.CONNECTING, State.IDLE

YIELD_NS = 5 * MS
"""Maximum time that Locust's greenlets wait for their turn."""
TIMEOUT_SCAN_NS = 100 * MS
"""Interval between checks of the requests in flight for their time-out."""
GIVE_UP_NS = 5 * MS
"""Maximum time spent at once on giving up unsent requests. Many take seconds, in which answers would be read late."""
REFUSED_PAUSE_NS = 100 * MS
"""A closed loop against a dead port connects again only after this pause: errors at full speed would tell no more."""
GENERATOR_ERROR = "generator_error"
"""The kind of failure where a channel has an error of its own: one request is lost to it, not the run."""
TICK_NS = 300_000
"""A tick takes up to about that: it is put off where a request is due sooner."""
PUT_OFF_NS = 5 * MS
"""The longest time for which a tick is put off."""
EVENTS_AT_ONCE = 16
"""Responses handled before due arrivals are looked at again: a bound on the delay that handling adds."""


class Backlog:
    """First in, first out; remembers who had to wait, so that the wait is not taken for the generator's own delay.

    Arrivals come in the order of their schedule, and while some wait every further one does: those that waited lie in
    a few stretches of the schedule, however many they are.
    """

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()
        # Arrays, which numpy reads as they are: brief waits make thousands of stretches a second, which are looked at
        # 20 times a second.
        self._stretches, self._ends = array("q"), array("q")
        """First and last schedule of each unbroken wait."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def first(self) -> int:
        """The schedule of the request that has waited longest."""
        return self._waiting[0]

    def append(self, scheduled: int) -> None:
        """Let a request wait."""
        if self._waiting:
            self._ends[-1] = scheduled
        else:
            self._stretches.append(scheduled)
            self._ends.append(scheduled)
        self._waiting.append(scheduled)

    def popleft(self) -> int:
        """Let the first one go."""
        return self._waiting.popleft()

    def forget(self, before: int) -> None:
        """Drop what is known of requests scheduled before: they all have their outcome."""
        over = min(bisect_left(self._ends, before), len(self._ends) - bool(self._waiting))
        del self._stretches[:over], self._ends[:over]

    def waited(self, scheduled: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Mark the requests that had to wait."""
        if not self._stretches:
            return np.zeros(len(scheduled), dtype=np.bool_)
        first, last = (np.frombuffer(each, np.int64) for each in (self._stretches, self._ends))
        index = np.searchsorted(first, scheduled, side="right") - 1
        inside: npt.NDArray[np.bool_] = (index >= 0) & (scheduled <= last[index])
        return inside


def _sharpen_timers() -> None:
    """Ask Linux to wake this thread within 1 µs of a timer, not the usual 50, which halves the schedule delay."""
    pr_set_timerslack = 29  # prctl(2)
    ctypes.CDLL(None).prctl(pr_set_timerslack, 1000, 0, 0, 0)


class Driver:
    """Sends `payloads` when `arrivals` says so and reports each request's outcome exactly once.

    They go over `connections`, some of which may be open already. Of right answers to plain payloads `on_good`, if
    given, gets the times alone, which costs less than an outcome.
    """

    def __init__(
        self,
        connections: Connections,
        payloads: Iterator[Payload],
        *,
        timeout_s: float,
        on_outcome: Callable[[Outcome], None],
        on_good: Callable[[Times], object] | None = None,
    ) -> None:
        self._connections = connections
        # The hot path has its parts at hand.
        self._connect, self._max_in_flight = connections.connect, connections.most
        self._epoll, self._channels, self._idle = connections.epoll, connections.channels, connections.idle
        self._payloads = payloads
        self._timeout_ns = int(timeout_s * 1e9)
        self._too_late = f"no response within {timeout_s:g} s"
        self._never_sent = f"not sent within {timeout_s:g} s of its schedule: as many as --max-in-flight were in flight"
        self._on_outcome, self._on_good = on_outcome, on_good
        self._clock = time.monotonic_ns
        self.backlog = Backlog()
        self._hold_until = 0
        self.in_flight = 0
        self.peak_in_flight = 0
        _sharpen_timers()

    def wake_on(self, bell: int) -> None:
        """Look for arrivals as soon as this eventfd is written: they may come from another thread."""
        # Edge-triggered and no channel's: it ends the wait and needs no reading.
        self._epoll.register(bell, READ | EPOLLET)

    def pass_over(self, after: int, count: int) -> None:
        """Skip `count` payloads, once all waiting arrivals and as many further ones have theirs."""
        soon = list(itertools.islice(self._payloads, len(self.backlog) + after))
        next(itertools.islice(self._payloads, count, count), None)
        self._payloads = itertools.chain(soon, self._payloads)

    @property
    def waiting_since(self) -> int | None:
        """When the oldest request without an outcome was due, None where there is none."""
        unanswered = [channel.scheduled for channel in self._channels.values() if channel.payload is not None]
        if self.backlog:
            unanswered.append(self.backlog.first)
        return min(unanswered, default=None)

    def run(self, arrivals: Arrivals, on_tick: Callable[[int], None]) -> None:
        """Drive until the arrivals are finished and every request has its outcome; `on_tick` is called each 5 ms."""
        next_tick = next_scan = 0
        clock, poll = self._clock, self._epoll.poll
        while True:
            now = clock()
            if self.backlog:
                self._send_waiting(now)
            due = arrivals.next_due()
            while due is not None and due <= now:
                self._arrive(arrivals.pop())
                due = arrivals.next_due()
            if now >= next_tick and (due is None or due >= now + TICK_NS or now >= next_tick + PUT_OFF_NS):
                begun = now
                on_tick(now)
                now = clock()
                if now >= next_scan:
                    # One that has not come to its end goes on in the next tick.
                    next_scan = now + TIMEOUT_SCAN_NS if self._expire(now) else now
                    now = clock()
                # Half of the time at most. What a tick does grows with the time since the one before: a generator that
                # is short of CPU would do little else, and read EVENTS_AT_ONCE answers in between until all time out.
                next_tick = now + max(YIELD_NS, now - begun)
                self._top_up(arrivals, now)
                if arrivals.finished(now) and not self.in_flight and not self.backlog:
                    on_tick(now)
                    return
                continue
            # Without a schedule the tick alone is waited for, which may be a little late.
            events = poll((next_tick - now) / 1e9, EVENTS_AT_ONCE) if due is None else self._wait(due, next_tick)
            if events:
                self._handle(events)
                self._top_up(arrivals, clock())

    def _wait(self, due: int, tick: int) -> list[tuple[int, int]]:
        """Wait for events; return none at the next arrival's time, or at about that of the tick."""
        poll: Callable[[float, int], list[tuple[int, int]]] = self._epoll.poll
        left = tick - self._clock()
        # epoll's time-out has whole milliseconds and is rounded up: good enough for a tick, and one system call.
        if due > tick + MS:
            return poll(max(left, 0) / 1e9, EVENTS_AT_ONCE)
        left += due - tick
        if left >= MS:
            return poll((left // MS - 0.5) / 1e3, EVENTS_AT_ONCE)
        events = poll(0, EVENTS_AT_ONCE)
        # select's time-out has microseconds.
        if not events and left > 0 and _select((self._epoll,), (), (), left / 1e9)[0]:
            events = poll(0, EVENTS_AT_ONCE)
        return events

    def sent_since(self, scheduled: int) -> int:
        """Count the unanswered requests that were scheduled at that time or later."""
        busy = (channel for channel in self._channels.values() if channel.payload is not None)
        return sum(channel.sent > 0 and channel.scheduled >= scheduled for channel in busy)

    def abandon(self, kind: str, message: str) -> None:
        """Give every unfinished request the outcome `kind` (a run that is cut short loses nothing)."""
        self.abandon_waiting(kind, message)
        for channel in [c for c in self._channels.values() if c.payload is not None]:
            self._fail(channel, kind, message)

    def abandon_waiting(self, kind: str, message: str) -> None:
        """Give the requests that wait to be sent the outcome `kind`."""
        now = self._clock()
        while self.backlog:
            self._report(next(self._payloads), self.backlog.popleft(), 0, now, kind, message)

    def cancel(self, is_due: Callable[[Channel], bool], kind: str, message: str) -> None:
        """Give up the requests in flight that are due; a channel that can do so goes on with another request."""
        now = self._clock()
        for channel in [c for c in self._channels.values() if c.payload is not None and is_due(c)]:
            payload, scheduled, sent = channel.payload, channel.scheduled, channel.sent
            assert payload is not None
            channel.payload = None
            self.in_flight -= 1
            if channel.cancel():
                self._idle.append(channel)
            else:
                self._connections.drop(channel)
            self._report(payload, scheduled, sent, now, kind, message)

    def _top_up(self, arrivals: Arrivals, now: int) -> None:
        """Send the closed loop's next requests."""
        if now >= self._hold_until:
            for _ in range(arrivals.wanted(self.in_flight, now)):
                if self.in_flight >= self._max_in_flight:
                    self.backlog.append(self._clock())
                else:
                    scheduled = self._clock()
                    self._begin(scheduled, scheduled + self._timeout_ns)

    def _arrive(self, scheduled: int) -> None:
        """Send a request that is due, or keep it in the backlog while the limit is reached."""
        if self.in_flight >= self._max_in_flight:
            self.backlog.append(scheduled)
        else:
            self._begin(scheduled, scheduled + self._timeout_ns)

    def _send_waiting(self, now: int) -> None:
        """Send from the backlog; what `_expire` has not come to yet and is too old is given up."""
        oldest = now - self._timeout_ns - TIMEOUT_SCAN_NS
        while self.backlog and self.in_flight < self._max_in_flight:
            if self.backlog.first >= oldest:
                self._begin(self.backlog.popleft(), now + self._timeout_ns)
            elif not self._give_up(now, oldest):
                return

    def _give_up(self, now: int, before: int) -> bool:
        """End requests of the backlog that were due before; False where some are left, because answers may wait."""
        until = now + GIVE_UP_NS
        while self.backlog and self.backlog.first < before:
            if self.in_flight and self._clock() > until:
                return False
            self._report(next(self._payloads), self.backlog.popleft(), 0, now, "timeout", self._never_sent)
        return True

    def _begin(self, scheduled: int, deadline: int) -> None:
        """Put the next payload on a channel, opening one where none is idle.

        What comes out of the backlog has the whole time-out from then on. Were its deadline that of its schedule, a
        generator that is once behind by the time-out would stay there: it would send what is about to expire, and
        reconnect for each.
        """
        channel = self._idle.pop() if self._idle else self._connect()
        channel.payload = next(self._payloads)
        channel.scheduled = scheduled
        channel.deadline = deadline
        channel.sent = 0
        self.in_flight += 1
        if self.in_flight > self.peak_in_flight:  # noqa: PLR1730 - the call of max() would take 3 % of a request
            self.peak_in_flight = self.in_flight
        try:
            if channel.state is _CLOSED:
                self._connections.open(channel)
            else:
                channel.sent = self._clock()
                channel.start()
                if channel.wants != channel.watched:
                    self._connections.watch(channel)
        except Exception as error:
            self._fail(channel, *_kind_and_words(error))

    def _handle(self, events: list[tuple[int, int]]) -> None:
        for fd, event in events:
            channel = self._channels.get(fd)
            if channel is None:
                continue
            outcome = None
            try:
                if channel.state is _CONNECTING:
                    self._connected(channel)
                else:
                    if event & WRITE:
                        channel.writable()
                    if event & ~WRITE:
                        outcome = self._read(channel)
                if channel.wants != channel.watched:
                    self._connections.watch(channel)
            except Exception as error:
                self._fail(channel, *_kind_and_words(error))
            if outcome is not None:
                self._on_outcome(outcome)

    def _connected(self, channel: Channel) -> None:
        if channel.payload is None:
            self._connections.attend(channel)
            return
        channel.connected()
        if channel.state is not _CONNECTING:
            channel.sent = self._clock()
            channel.start()

    def _read(self, channel: Channel) -> Outcome | None:
        """Take what has come; the outcome of a request that it ends."""
        payload = channel.payload
        if payload is None:
            if not channel.on_unsolicited_data():
                self._connections.drop(channel)
            return None
        response = channel.readable()
        if response is None:
            return None
        channel.payload = None
        self.in_flight -= 1
        if channel.state is _IDLE:
            self._idle.append(channel)
        else:
            self._connections.drop(channel)
        scheduled, sent, done = channel.scheduled, channel.sent, channel.done
        if payload.plain and self._on_good is not None and response.error is None and done <= channel.deadline:
            self._on_good((scheduled, sent, done, response.size))
            return None
        if done > channel.deadline:
            # It came before `_expire` looked: whether a late answer counts must not depend on that.
            return Outcome(payload, scheduled, sent, done, "timeout", self._too_late, None)
        return Outcome(payload, scheduled, sent, done, response.error, "", response)

    def _expire(self, now: int) -> bool:
        """End the requests that were not answered, or not sent, in time; whether these are all."""
        limit = now - self._timeout_ns
        whole = self._give_up(now, limit)
        # One that was sent at the end of its wait is answered a time-out later, and counted a little after that.
        self.backlog.forget(limit - self._timeout_ns - 1000 * MS)
        late = [c for c in self._channels.values() if c.payload is not None and c.deadline < now]
        for channel in late:
            self._fail(channel, "timeout", self._too_late)
        return whole

    def _fail(self, channel: Channel, kind: str, message: str) -> None:
        """Report a request whose channel cannot be used any more."""
        payload, scheduled, sent = channel.payload, channel.scheduled, channel.sent
        channel.payload = None
        self._connections.drop(channel)
        if payload is None:
            return
        self.in_flight -= 1
        now = self._clock()
        if not sent:
            self._hold_until = now + REFUSED_PAUSE_NS
        self._report(payload, scheduled, sent, now, kind, message)

    def _report(self, payload: Payload, scheduled: int, sent: int, done: int, error: str, message: str) -> None:
        self._on_outcome(Outcome(payload, scheduled, sent, done, error, message, None))


def _kind_and_words(error: Exception) -> tuple[str, str]:
    """Return error kind and message of a failed channel, whether the server or a bug of its own is the cause."""
    if isinstance(error, ConnectionFailed):
        return error.kind, str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return GENERATOR_ERROR, f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
