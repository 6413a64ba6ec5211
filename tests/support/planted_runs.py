"""Runs of known causes without a server: an exact queue with chosen services, and what a cause adds to it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from servemark.explain.document import explanation
from servemark.explain.queue import Setup, replay
from servemark.explain.tail import Evidence
from servemark.explain.timeline import Floats, Machine, Sent, Served, Times

MS = 1_000_000
START = 1_000_000 * MS
CORES = 2
READING_NS = 10 * MS
Stops = tuple[tuple[float, float], ...]
"""Starts and lengths (s)."""


@dataclass(frozen=True)
class Synthetic:
    """A run of one model: Poisson arrivals, a service of `service_ms` at batch 1 that grows by `grows` each request.

    Services vary by 5 %, ways to and from the server by half; outputs take a tenth of `way_ms`.
    """

    rate: float = 50.0
    seconds: float = 30.0
    service_ms: float = 8.0
    grows: float = 0.5
    setup: Setup = field(default_factory=Setup)
    way_ms: float = 0.1
    output_ms: float = 0.1
    answer_ms: float = 0.0
    """An answer's way takes so much longer than its request's, because of its size."""
    connect_ms: float = 0.0
    """Each tenth request opens a connection."""
    throttled_ms: float = 0.0
    """A proxy hands on one answer each so long."""
    pauses: Stops = ()
    client_stops: Stops = ()
    other_share: float = 0.0
    """Share of time that a thread waits for a core because of other work."""
    cold_s: float = 0.0
    """Executions take ten times as long in the first seconds."""
    change_ms: float = 0.0
    """An execution takes so much longer if its size is another than the one before."""
    slow_every: int = 0
    """Each so many executions one takes six times as long."""
    seed: int = 1

    def evidence(self) -> Evidence:
        """Everything that a run of it would keep."""
        rng = np.random.default_rng(self.seed)
        count = round(self.rate * self.seconds)
        due = START + np.cumsum(rng.exponential(1e9 / self.rate, count)).astype(np.int64)
        client_waits = self._waits(rng, count)
        begun = _after(due, self.client_stops) + client_waits
        tenth = np.arange(count) % 10 == 0
        sent = begun + (tenth * self.connect_ms * MS).astype(np.int64)
        waits_in, waits_out = self._waits(rng, count), self._waits(rng, count)
        queued = _after(sent + self._way(rng, count) + waits_in, self.pauses)
        ran = replay(queued, self.setup, self._service(rng, count))
        output = round(self.output_ms * MS)
        served = Served(queued, ran.start, ran.start + MS // 20, ran.end - output, ran.end)
        passed = ran.end
        if self.throttled_ms:
            passed = replay(ran.end, Setup(), lambda _, __: self.throttled_ms * MS).end
        done = _after(passed + self._way(rng, count) + round(self.answer_ms * MS) + waits_out, self.client_stops)
        everything = Sent(np.arange(count), due, begun, sent, done, np.ones(count, bool))
        waited = {"waited": (queued, waits_in), "client_waited": (begun, client_waits)}
        return Evidence(everything, served, self._machine(rng, int(done.max()), served, waited), self.setup)

    def explained(self) -> Any:
        """Explain it. Raises ValueError where it has too few requests."""
        return explained(self.evidence())

    def _way(self, rng: np.random.Generator, count: int) -> Times:
        return (self.way_ms * MS * rng.uniform(0.75, 1.25, count)).astype(np.int64)

    def _waits(self, rng: np.random.Generator, count: int) -> Times:
        """Waits of a thread for a core, some of them as long as a turn of another."""
        some = rng.random(count) < self.other_share / 2
        return (some * rng.exponential(8 * MS, count)).astype(np.int64)

    def _service(self, rng: np.random.Generator, count: int) -> Callable[[int, int], float]:
        factor: Iterator[float] = iter(rng.lognormal(0, 0.05, count).tolist())
        number = iter(range(1, count + 1))
        before = [0]

        def service(begin: int, size: int) -> float:
            own = self.service_ms * MS * (1 + self.grows * (size - 1)) * next(factor)
            own += self.change_ms * MS * (size != before[0])
            before[0] = size
            own *= 10 if begin < START + self.cold_s * 1e9 else 1
            own *= 6 if self.slow_every and next(number) % self.slow_every == 0 else 1
            end = begin + own / (1 - self.other_share) + self.output_ms * MS
            for at, long in self.pauses:
                start, stop = START + at * 1e9, START + (at + long) * 1e9
                end += stop - max(start, begin) if begin < stop and end > start else 0
            return end - begin

        return service

    def _machine(
        self, rng: np.random.Generator, end: int, served: Served, more: dict[str, tuple[Times, Times]]
    ) -> Machine:
        """Readings of the machine; a little other work is always there."""
        steps = rng.uniform(0.95, 1.05, (end - START) // READING_NS + 2) * READING_NS
        at = START + np.cumsum(steps).astype(np.int64)
        spans = np.unique(np.stack([served.started, served.ended], axis=1), axis=0)
        # Nobody computes in a pause: the server's clock stands.
        own = _active(at, self.pauses)
        computing = _past(own, _active(spans[:, 0], self.pauses)) - _past(own, _active(spans[:, 1], self.pauses))
        waits = {"waited": computing * self.other_share, "client_waited": np.zeros(len(at))}
        for name, (ends, long) in more.items():
            order = np.argsort(ends, kind="stable")
            waits[name] += np.concatenate([[0], np.cumsum(long[order])])[np.searchsorted(ends[order], at)]
        server = computing * (1 - self.other_share)
        others = (at - START) * 0.03 * CORES
        if self.other_share:
            others = np.maximum((at - START) * float(CORES) - server, 0)
        stopped = np.cumsum(np.isin(at, at[1:][np.diff(own) == 0]))
        busy = np.floor((server + others) / READING_NS) * READING_NS
        columns = {"server_cpu": server, "others": others, "busy": busy, **waits, "stopped": stopped}
        counters = {name: np.maximum.accumulate(column.astype(np.int64)) for name, column in columns.items()}
        return Machine(at=at, stolen=np.zeros(len(at), np.int64), cores=CORES, **counters)


def explained(evidence: Evidence, note: str = "", *, traced: bool = True) -> Any:
    """Explain a run, maybe without the server's trace. Raises ValueError where it has too few requests."""
    served = evidence.served if traced else None
    if (found := explanation(evidence.sent, served, evidence.machine, evidence.setup, note)) is None:
        raise ValueError("too few requests")
    return found


def _after(times: Times, stops: Stops) -> Times:
    """Move what falls into a stop to its end."""
    for at, long in stops:
        start, end = START + round(at * 1e9), START + round((at + long) * 1e9)
        times = np.where((times >= start) & (times < end), end, times)
    return times


def _active(times: Times, stops: Stops) -> Times:
    """Return times of a clock that stands still in stops."""
    lost = sum((np.clip(times - START - round(at * 1e9), 0, round(long * 1e9)) for at, long in stops), np.zeros(1))
    return (times - lost).astype(np.int64)


def _past(now: Times, events: Times) -> Floats:
    """Return the sum of the times that have passed since each event."""
    events = np.sort(events)
    passed = np.searchsorted(events, now)
    sums = np.concatenate([[0.0], np.cumsum((events - START).astype(float))])
    found: Floats = passed * (now - START).astype(float) - sums[passed]
    return found


def _at_load(seed: int, load: float) -> Synthetic:
    """A model of some size, at a share of what one instance answers."""
    rng = np.random.default_rng((seed, 29))
    service_ms = float(np.exp(rng.uniform(np.log(1.5), np.log(60))))
    grows = float(rng.uniform(0.3, 0.9))
    rate = load * 1000 / service_ms
    return Synthetic(rate, max(1000 / rate, 12.0), service_ms, grows, seed=seed)


def _every(seconds: float, long: float, of: Synthetic) -> Stops:
    return tuple((float(at), long) for at in np.arange(seconds, of.seconds, seconds))


def planted(cause: str, seed: int) -> Synthetic:
    """A run with a cause of PLANTED; the seed also chooses the model."""
    quiet = _at_load(seed, 0.25)
    batch = 8
    full = Setup(1, 64, round(4e9 * batch / (2 * quiet.rate)), (batch,))
    return {
        "nothing": quiet,
        "one instance too few": _at_load(seed, 0.85),
        "a queue delay of 20 ms": replace(quiet, setup=Setup(1, 64, 20 * MS)),
        "a batch too large": replace(quiet, rate=2 * quiet.rate, setup=full),
        "a delaying proxy": replace(quiet, way_ms=12.5 + quiet.way_ms),
        "a throttling proxy": replace(quiet, throttled_ms=600 / quiet.rate),
        "a busy neighbour": replace(quiet, other_share=0.6),
        "a stopped server": replace(quiet, pauses=_every(3.0, 0.2, quiet)),
        "large outputs": replace(
            quiet,
            rate=quiet.rate / 2.5,
            output_ms=0.5 * quiet.service_ms,
            answer_ms=quiet.service_ms,
            setup=Setup(answer_surplus=4 << 20),
        ),
        "a cold model": replace(quiet, cold_s=0.08 * quiet.seconds),
        "a slow client": replace(quiet, client_stops=_every(0.333, 0.06, quiet)),
        "connections that are opened": replace(quiet, connect_ms=max(20.0, quiet.service_ms)),
        "slow executions": replace(quiet, slow_every=40),
        "changes of the batch size": replace(
            quiet, rate=2 * quiet.rate, change_ms=3 * quiet.service_ms, setup=Setup(1, 8)
        ),
    }[cause]


PLANTED = {
    "nothing": None,
    "one instance too few": "instance",
    "a queue delay of 20 ms": "batch_fill",
    "a batch too large": "batch_size",
    "a delaying proxy": "network",
    "a throttling proxy": "network",
    "a busy neighbour": "other_work",
    "a stopped server": "pause",
    "large outputs": "output",
    "a cold model": "cold",
    "a slow client": "schedule",
    "connections that are opened": "connection",
    "slow executions": "slower",
    "changes of the batch size": "size_change",
}
"""Planted cause -> the one name that is right."""
