"""Locust's own statistics, behind its tables, web UI, CSV files and master: every request, at a tenth of the price."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import locust.stats
import numpy as np
import numpy.typing as npt
from locust.env import Environment
from locust.stats import StatsEntry

from loadgen.locust_bridge.locust_internals import request_listeners
from loadgen.sut.channel import Outcome

METHOD = "infer"
"""Name that Locust shows as the type of a request."""
_usual_buckets = locust.stats.bucket_response_time


class LocustStatistics:
    """Tells one Locust process of every request.

    Locust's request event takes 4.6 µs for each, more than everything else that Python does for a request here. While
    nobody but Locust's own runner listens to it, the right answers of 50 ms are added together, as Locust's master adds
    a worker's report. While anybody else listens each request is an event; failed ones always are.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._name = ""
        self._fire: Callable[..., None] = environment.events.request.fire
        self._listeners, self._own = request_listeners(environment)

    def begin(self, name: str) -> None:
        """Requests are of this name from now on."""
        self._name = name

    def failed(self, outcome: Outcome, words: str) -> None:
        """Take a failed request and the server's words about it."""
        # Locust keeps a counter for each text: of all messages but the first it gets the kind alone.
        said = ": ".join(filter(None, (outcome.error, words)))
        size = outcome.response.size if outcome.response is not None else 0
        self._tell((outcome.done - outcome.scheduled) / 1e6, size, said)

    def good(self, times: npt.NDArray[np.int64]) -> None:
        """Take right answers: rows of when they were scheduled, sent and done, in ns, and of their bytes."""
        latencies_ms, sizes = (times[:, 2] - times[:, 0]) / 1e6, times[:, 3]
        if self._listeners == self._own:
            self._add(latencies_ms, int(sizes.sum()))
        else:
            for latency_ms, size in zip(latencies_ms.tolist(), sizes.tolist(), strict=True):
                self._tell(latency_ms, size, None)

    def _tell(self, latency_ms: float, size: int, exception: str | None) -> None:
        """Fire Locust's event of one request."""
        self._fire(
            request_type=METHOD,
            name=self._name,
            response_time=latency_ms,
            response_length=size,
            exception=exception,
            context={},
        )

    def _add(self, latencies_ms: npt.NDArray[np.float64], size: int) -> None:
        """Add answers together."""
        stats, now = self._environment.stats, time.time()
        batch: Any = StatsEntry(stats, self._name, METHOD)  # Locust's own hints say int where its events give float
        batch.num_requests = len(latencies_ms)
        batch.num_reqs_per_sec = {int(now): len(latencies_ms)}
        batch.last_request_timestamp = now
        batch.total_response_time = float(latencies_ms.sum())
        batch.min_response_time, batch.max_response_time = float(latencies_ms.min()), float(latencies_ms.max())
        batch.response_times = _buckets(latencies_ms)
        batch.total_content_length = size
        stats.total.extend(batch)
        stats.entries[self._name, METHOD].extend(batch)


def _buckets(latencies_ms: npt.NDArray[np.float64]) -> dict[int, int]:
    """Count them as Locust does: by two significant digits, unless its user has put another function in the place."""
    if locust.stats.bucket_response_time is not _usual_buckets:
        return Counter(map(locust.stats.bucket_response_time, latencies_ms.tolist()))
    steps = np.array([1, 10, 100, 1000])[np.searchsorted([100, 1000, 10000], latencies_ms, side="right")]
    values, counts = np.unique(np.rint(latencies_ms / steps) * steps, return_counts=True)
    return dict(zip(values.astype(int).tolist(), counts.tolist(), strict=True))
