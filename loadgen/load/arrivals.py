"""When requests go out: the open loop's schedule, generated whole from a seed, the closed loop, and shares of both."""

import heapq
import itertools
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from servemark import interrupts
from servemark.documents.load import NO_PAUSE, Distribution, Stage
from servemark.errors import ServerError

START_IN_S = 0.05
"""The schedule begins this long after the connections are open."""
START_TIMEOUT_S = 900.0
"""Maximum wait of a run that is ready for others that begin with it."""

Seed = int | Sequence[int]
"""Of numpy's generator; several numbers are one seed."""


def schedule(
    distribution: Distribution, rate: float, duration_s: float, seed: Seed, *, cv: float = 1.0
) -> npt.NDArray[np.int64]:
    """Arrival times in ns of one constant rate in requests/s; see `staged`."""
    return staged(distribution, [Stage(duration_s, rate)], seed, cv=cv)


def staged(
    distribution: Distribution, stages: Sequence[Stage], seed: Seed, *, cv: float = 1.0
) -> npt.NDArray[np.int64]:
    """Arrival times in ns from the start, ascending, within the stages. Equal arguments give equal schedules.

    Poisson arrivals have independent exponential gaps: what many independent clients look like (MLPerf Inference rules,
    Server scenario). Gamma gaps have the coefficient of variation `cv`: above 1 arrivals come in bursts, 1 is Poisson.
    The start is a random moment of the process, so the first gap is the rest of one (Cox, Renewal Theory, section 5.2).
    Constant arrivals are 1/rate apart. A process of rate 1 is drawn once and its time stretched by each stage's rate
    (time change: Cinlar, Introduction to Stochastic Processes, section 4.7), which is exact at the stages' boundaries
    and within ramps.
    """
    durations = np.array([stage.duration_s for stage in stages])
    rates, ends, means = np.array([(stage.rate, stage.end_rate, stage.mean_rate) for stage in stages]).T
    starts, counts = (np.concatenate([[0.0], np.cumsum(each)]) for each in (durations, durations * means))
    unit = _unit(distribution, float(counts[-1]), cv, np.random.default_rng(seed))
    unit = unit[unit < counts[-1]]
    # The last stage that begins at or before an arrival: a pause has no arrival.
    index = np.searchsorted(counts, unit, side="right") - 1
    # In a stage rate * t + slope * t^2 / 2 arrivals come until t. This form of the root also holds without a slope.
    since, rate, slope = unit - counts[index], rates[index], (ends - rates)[index] / durations[index]
    divisor = rate + np.sqrt(np.maximum(rate**2 + 2 * slope * since, 0.0))
    arrivals_s = starts[index] + np.divide(2 * since, divisor, out=np.zeros_like(since), where=divisor > 0)
    arrivals_ns: npt.NDArray[np.int64] = (arrivals_s[arrivals_s < starts[-1]] * 1e9).astype(np.int64)
    return arrivals_ns


def _unit(distribution: Distribution, until: float, cv: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Arrivals of a process of rate 1, at least up to `until`."""
    if distribution is Distribution.CONSTANT:
        # Counting, not summing: a summed gap would drift by its rounding error.
        return np.arange(np.ceil(until))
    gamma, shape = distribution is Distribution.GAMMA, cv**-2
    # Longer gaps are met more often: that which holds a random moment is Gamma(shape + 1), the moment anywhere in it.
    arrivals = rng.random(1) * rng.gamma(shape + 1, 1 / shape, 1) if gamma else np.empty(0)
    while not arrivals.size or arrivals[-1] < until:
        last = arrivals[-1] if arrivals.size else 0.0
        expected = until - last
        size = int(expected + 4 * np.sqrt(expected)) + 16
        gaps = rng.gamma(shape, 1 / shape, size) if gamma else rng.standard_exponential(size)
        arrivals = np.concatenate([arrivals, last + np.cumsum(gaps)])
    return arrivals


def start_time(file: Path | None, ahead_s: float = START_IN_S) -> int:
    """Return when the schedule begins: soon, or at the time that its caller writes when several runs are ready."""
    if file is None:
        return time.monotonic_ns() + int(ahead_s * 1e9)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (file.exists() and (text := file.read_text())):
        if time.monotonic() > deadline:
            raise ServerError(f"{file} did not come within {START_TIMEOUT_S:g} s: the caller has not begun the run")
        interrupts.sleep(0.01)
    return int(text)


class Arrivals(Protocol):
    """When requests go out."""

    def next_due(self) -> int | None:
        """Time of the next scheduled arrival in ns, None where there is none (any more)."""

    def pop(self) -> int:
        """Take the next scheduled arrival."""

    def wanted(self, in_flight: int, now: int) -> int:
        """Return the number of unscheduled requests to send at once (the closed loop's)."""

    def finished(self, now: int) -> bool:
        """Return True if no further request will go out."""


class OpenLoopArrivals:
    """A schedule made ahead; it is never re-anchored, however late the server is. It lasts until `end_ns` at least."""

    def __init__(self, arrivals_ns: list[int], start_ns: int, end_ns: int = 0) -> None:
        self._all = arrivals_ns
        self._arrivals = iter(arrivals_ns)
        self._later: Iterator[int] = iter(())
        """Arrivals after the others, which are brought forward by `_earlier` ns."""
        self._earlier = 0
        self._start = start_ns
        self._end = end_ns
        self._next = self._advance()

    def _advance(self) -> int | None:
        offset = next(self._arrivals, None)
        if offset is None:
            # What a cut has moved, if there was one.
            self._arrivals, self._later = self._later, iter(())
            self._start, self._earlier = self._start - self._earlier, 0
            offset = next(self._arrivals, None)
        return None if offset is None else self._start + offset

    def next_due(self) -> int | None:
        return self._next

    def pop(self) -> int:
        assert self._next is not None
        due, self._next = self._next, self._advance()
        return due

    def wanted(self, in_flight: int, now: int) -> int:  # noqa: ARG002 - the open loop does not look at the server
        """None: only the schedule sends."""
        return 0

    def finished(self, now: int) -> bool:
        """Return True if the schedule is used up and its time is over."""
        return self._next is None and now >= self._end

    def cut(self, first_ns: int, until_ns: int) -> tuple[int, int]:
        """Leave out what is due from a time to come until another one, and have all that is due then come at once.

        Returns how many are due before, and how many are left out.
        """
        taken = len(self._all) - length_hint(self._arrivals) - (self._next is not None)
        first = max(bisect_left(self._all, first_ns - self._start), taken)
        beyond = bisect_left(self._all, until_ns - self._start)
        self._arrivals, self._later = iter(self._all[taken:first]), iter(self._all[beyond:])
        self._earlier = until_ns - first_ns
        self._end -= self._earlier
        self._next = self._advance()
        return first - taken, beyond - first

    def stop(self) -> None:
        """Send no more."""
        self._next, self._end = None, 0


class ClosedLoopArrivals:
    """`concurrency` requests in flight at any time from `start_ns` on, until `over(now)`."""

    def __init__(self, concurrency: int, over: Callable[[int], bool], start_ns: int = 0) -> None:
        self.concurrency = concurrency
        self._start = start_ns
        self._over = over

    def next_due(self) -> int | None:
        """None: nothing is scheduled."""
        return None

    def pop(self) -> int:
        raise IndexError("a closed loop has no schedule")

    def wanted(self, in_flight: int, now: int) -> int:
        missing = self.concurrency - in_flight
        return 0 if missing <= 0 or now < self._start or self._over(now) else missing

    def finished(self, now: int) -> bool:
        return self._over(now)

    def cut(self, first_ns: int, until_ns: int) -> tuple[int, int]:  # noqa: ARG002 - nothing is scheduled
        """Cut nothing off, because nothing is scheduled."""
        return 0, 0

    def stop(self) -> None:
        """Send no more."""
        self._over = lambda _now: True


class Users(NamedTuple):
    """Users of a closed loop."""

    number: int
    think_time_s: tuple[float, float] = NO_PAUSE
    """Shortest and longest pause of each before a request."""
    seed: str = ""


class ThinkingUsers(ClosedLoopArrivals):
    """A closed loop whose users pause before each request: evenly drawn between two numbers of seconds.

    A request is due when its user's pause is over, and its latency counts from there. At the start the users are
    spread over a pause, so that they do not come all at once.
    """

    def __init__(self, users: Users, over: Callable[[int], bool], start_ns: int) -> None:
        super().__init__(users.number, over, start_ns)
        self._think_time_s = users.think_time_s
        self._random = random.Random(users.seed)  # noqa: S311 - a load, no secret
        self._due: list[int] = []
        self._spread = users.number
        """Users that have not sent yet."""

    def next_due(self) -> int | None:
        """Time at which the next user's pause is over."""
        return self._due[0] if self._due else None

    def pop(self) -> int:
        return heapq.heappop(self._due)

    def wanted(self, in_flight: int, now: int) -> int:
        """Let users whose request was answered begin their pause, after which they are due; none is wanted."""
        if self._over(now):
            self._due.clear()
            return 0
        for _ in range(self.concurrency - in_flight - len(self._due)):
            pause_s = self._random.uniform(*self._think_time_s)
            if self._spread:
                self._spread -= 1
                pause_s = self._random.uniform(0, pause_s)
            heapq.heappush(self._due, max(now, self._start) + round(pause_s * 1e9))
        return 0

    def stop(self) -> None:
        super().stop()
        self._due.clear()


def closed_loop(users: Users, over: Callable[[int], bool], start_ns: int) -> ClosedLoopArrivals:
    """Return the arrivals of a closed loop, with pauses where its users have some."""
    if users.think_time_s == NO_PAUSE:
        return ClosedLoopArrivals(users.number, over, start_ns)
    return ThinkingUsers(users, over, start_ns)


Item = TypeVar("Item")


@dataclass(frozen=True)
class Share:
    """Every `of`-th arrival from the one with number `index` on, and the request that one process would send with it.

    All processes make the same whole schedule from the seed, so what they send together is that schedule itself, not
    one like it: the superposition of thinned processes would be Poisson only for Poisson arrivals (Cinlar, Introduction
    to Stochastic Processes, section 4.5).
    """

    index: int = 0
    of: int = 1

    def arrivals(self, whole: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """This part's arrivals."""
        return whole[self.index :: self.of]

    def requests(self, whole: Iterator[Item]) -> Iterator[Item]:
        """This part's requests: each arrival has the one that it has in the whole."""
        return whole if self.of == 1 else itertools.islice(whole, self.index, None, self.of)

    def count(self, whole: int) -> int:
        """This part of a number of connections; the parts differ by one at most."""
        return whole // self.of + (self.index < whole % self.of)


ALL = Share()
