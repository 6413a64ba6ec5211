"""Parts of the time of a request that has a connection of its own, from its beginning to the answer's last byte."""

from array import array

import numpy as np

from servemark.stats.histogram import Histogram

_STAMPS = 6


class ConnectionTimes:
    """Parts of the answered requests. They follow one another without a gap, and add up to the service time."""

    def __init__(self) -> None:
        self.connect, self.tls, self.first_byte, self.receive = (Histogram() for _ in range(4))
        self.dns_ms: float | None = None
        """The time to look the server's name up, once before the run (ms). None: the URL has an address."""
        self._raw = array("q")

    def take(self, scheduled: int, begun: int, connected: int, ready: int, first: int, done: int) -> None:
        """Take the stamps of one request, in ns of the monotonic clock."""
        self._raw.extend((scheduled, begun, connected, ready, first, done))

    def flush(self, start: int, end: int) -> None:
        """Count what has been gathered of requests that were scheduled in an interval (ns)."""
        rows = np.array(self._raw, dtype=np.int64).reshape(-1, _STAMPS)
        del self._raw[:]
        rows = rows[(rows[:, 0] >= start) & (rows[:, 0] < end)]
        for number, part in enumerate((self.connect, self.tls, self.first_byte, self.receive), 1):
            part.record(rows[:, number + 1] - rows[:, number])
