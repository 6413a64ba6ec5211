"""Requests of known causes: an exact queue with chosen services, and what a cause adds to it."""

from dataclasses import dataclass, field

import numpy as np

from servemark.explain.replay import replay
from servemark.explain.tail import Evidence
from servemark.explain.timeline import Floats, Machine, Sent, Served, Setup, Times

MS = 1_000_000
START = 1_000_000 * MS


@dataclass
class Synthetic:
    """A run of one model: Poisson arrivals, a service of `service_ms` at batch 1 that grows by `grows` each request.

    Every way to and from the server takes 0.1 ms, inputs and outputs as long.
    """

    rate: float = 50.0
    seconds: float = 60.0
    service_ms: float = 8.0
    grows: float = 0.5
    setup: Setup = field(default_factory=Setup)
    way_ms: float = 0.1
    late_ms: float = 0.0
    """Each tenth request is sent late by this."""
    connect_ms: float = 0.0
    """Each tenth request opens a connection."""
    pauses: tuple[tuple[float, float], ...] = ()
    """Starts (s) and lengths (s) of stops of the server."""
    other_share: float = 0.0
    """Share of time that a thread of the server waits while it computes, because of other work."""
    seed: int = 1

    def evidence(self) -> Evidence:
        """Everything that a run of it would keep."""
        rng = np.random.default_rng(self.seed)
        count = round(self.rate * self.seconds)
        due = START + np.cumsum(rng.exponential(1e9 / self.rate, count)).astype(np.int64)
        tenth = np.arange(count) % 10 == 0
        begun = due + (tenth * self.late_ms * MS).astype(np.int64)
        sent = begun + (tenth * self.connect_ms * MS).astype(np.int64)
        queued = self._after_pauses(sent + round(self.way_ms * MS))
        factor = rng.uniform(0.95, 1.05, count)

        def service(begin: int, size: int) -> float:
            own = self.service_ms * MS * (1 + self.grows * (size - 1)) * factor[begin % count]
            return self._end(begin, own / (1 - self.other_share)) - begin

        ran = replay(queued, self.setup, service)
        margin = MS // 10
        served = Served(queued, ran.start, ran.start + margin, ran.end - margin, ran.end)
        done = ran.end + round(self.way_ms * MS)
        everything = Sent(np.arange(count), due, begun, sent, done, np.ones(count, bool))
        return Evidence(everything, served, self._machine(int(done.max()), served), self.setup)

    def _stops(self) -> list[tuple[int, int]]:
        return [(START + round(at * 1e9), START + round((at + long) * 1e9)) for at, long in self.pauses]

    def _after_pauses(self, times: Times) -> Times:
        for start, end in self._stops():
            times = np.where((times >= start) & (times < end), end, times)
        return times

    def _end(self, begin: int, work: float) -> float:
        """When work that begins then is done, pauses within it not counted."""
        end = begin + work
        for start, stop in self._stops():
            if begin < stop and end > start:
                end += stop - max(start, begin)
        return end

    def _machine(self, end: int, served: Served) -> Machine:
        at = np.arange(START, end, 5 * MS)
        computing: Floats = np.zeros(len(at))
        for begin, over in np.unique(np.stack([served.started, served.ended], axis=1), axis=0):
            computing += np.clip(at, begin, over) - begin
        for start, stop in self._stops():
            for begin, over in np.unique(np.stack([served.started, served.ended], axis=1), axis=0):
                low, high = max(start, begin), min(stop, over)
                if high > low:
                    computing -= np.clip(at, low, high) - low
        waited = computing * self.other_share
        stopped = np.cumsum([any(start <= now < stop for start, stop in self._stops()) for now in at])
        server = (computing - waited).astype(np.int64)
        others = ((at - START) * min(self.other_share * 2, 1.0)).astype(np.int64)
        if self.other_share:
            # Everybody else that has the cores: the share of other work is all but the server's.
            others = server * 1000
        return Machine(
            at, server, waited.astype(np.int64), others, server + others, np.zeros(len(at), np.int64), stopped, 2
        )
