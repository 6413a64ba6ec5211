"""Locust's own statistics, behind its tables, web UI, CSV files and master: every request, at a tenth of the price."""

import time
from array import array
from collections import Counter
from collections.abc import Callable

import gevent
import locust.stats
import numpy as np
from locust.env import Environment
from locust.stats import StatsEntry

from loadgen.locust_bridge.locust_internals import request_listeners
from loadgen.sut.channel import Outcome

FLUSH_S = 0.1
"""Maximum delay until Locust's statistics have an answer."""
METHOD = "infer"
"""Name that Locust shows as the type of a request."""


class LocustStatistics:
    """Tells one Locust process of every request.

    Locust's request event takes 4.6 µs for each, more than everything else that Python does for a request here. While
    nobody but Locust's own runner listens to it, good answers are gathered (0.4 µs) and added together, as Locust's
    master adds a worker's report. While anybody else listens each request is an event; failed ones always are.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._name = ""
        self._fire: Callable[..., None] = environment.events.request.fire
        self._listeners, self._own = request_listeners(environment)
        self._gathered = array("q")
        gevent.spawn(self._go_on)

    def begin(self, name: str) -> None:
        """Requests are of this name from now on."""
        self.flush()
        self._name = name

    def request(self, outcome: Outcome, message: str) -> None:
        """Take one outcome and the server's words about it; the hot path."""
        response = outcome.response
        if outcome.error is None and response is not None and self._listeners == self._own:
            self._gathered.extend((outcome.done - outcome.scheduled, response.size))
            return
        self._fire(
            request_type=METHOD,
            name=self._name,
            response_time=(outcome.done - outcome.scheduled) / 1e6,
            response_length=response.size if response is not None else 0,
            # Locust keeps a counter for each text: of all messages but the first it gets the kind alone.
            exception=": ".join(filter(None, (outcome.error, message))) if outcome.error else None,
            context={},
        )

    def flush(self) -> None:
        """Add what has been gathered."""
        if not self._gathered:
            return
        latencies, sizes = np.array(self._gathered).reshape(-1, 2).T
        del self._gathered[:]
        stats, now = self._environment.stats, time.time()
        latencies_ms = (latencies / 1e6).tolist()
        batch = StatsEntry(stats, self._name, METHOD)
        batch.num_requests = len(latencies_ms)
        batch.num_reqs_per_sec = {int(now): len(latencies_ms)}
        batch.last_request_timestamp = now
        batch.total_response_time = sum(latencies_ms)
        batch.min_response_time, batch.max_response_time = min(latencies_ms), max(latencies_ms)
        # Looked up each time: Locust lets its users replace it.
        batch.response_times = Counter(map(locust.stats.bucket_response_time, latencies_ms))
        batch.total_content_length = int(sizes.sum())
        stats.total.extend(batch)
        stats.entries[self._name, METHOD].extend(batch)

    def _go_on(self) -> None:
        while True:
            gevent.sleep(FLUSH_S)
            self.flush()
