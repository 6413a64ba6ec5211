"""The process that exposes and sends a run's metrics: it reads snapshots from stdin until that ends."""

import json
import pickle
import signal
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from servemark.results.schema.run import Telemetry
from servemark.telemetry.metrics.destinations import Destinations
from servemark.telemetry.metrics.endpoint import Endpoint
from servemark.telemetry.metrics.push import Pusher
from servemark.telemetry.metrics.snapshot import Snapshot, Span

if TYPE_CHECKING:
    from servemark.telemetry.metrics.otlp import Collector


class Metrics:
    """The last snapshot, and where it goes. Raises OSError where it cannot listen."""

    def __init__(self, destinations: Destinations) -> None:
        self._last: Snapshot | None = None
        self._endpoint: Endpoint | None = None
        if destinations.metrics_port is not None:
            self._endpoint = Endpoint(destinations.metrics_host, destinations.metrics_port, lambda: self._last)
        self._collector = collector(destinations.otlp) if destinations.otlp else None
        self._pusher = Pusher(destinations.otlp, self._collector.send) if self._collector else None

    @property
    def url(self) -> str | None:
        """Return the URL of the endpoint."""
        return self._endpoint.url if self._endpoint else None

    def take(self, packed: Any) -> None:
        """Expose another snapshot, and send it when it is time."""
        snapshot = self._last = Snapshot.unpack(packed)
        if self._pusher is not None:
            self._pusher.take(snapshot)

    def take_spans(self, spans: Iterable[Iterable[Any]]) -> None:
        """Send the spans of some requests when it is time."""
        if self._collector is not None:
            self._collector.take(Span(*each) for each in spans)

    def finish(self, within_s: float) -> list[Telemetry]:
        """Send the last one; what was sent, after so long at most."""
        return [self._pusher.finish(within_s)] if self._pusher is not None else []


def collector(url: str) -> "Collector":
    """The OpenTelemetry collector at a URL; its package is imported only where it is asked for."""
    from servemark.telemetry.metrics.otlp import Collector

    return Collector(url)


def main(arguments: list[str]) -> None:
    """Say on stdout where the endpoint is, or what is wrong; then follow the run."""
    # The run that has started it says when it ends, also after a Ctrl-C that reached both: stdin ends then.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        metrics = Metrics(Destinations(**json.loads(arguments[0])))
    except OSError as error:
        _say({"error": error.strerror or str(error)})
        return
    _say({"url": metrics.url})
    while True:
        try:
            what, content = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that has started this one
        except (EOFError, pickle.UnpicklingError):
            return
        if what == "snapshot":
            metrics.take(content)
        elif what == "spans":
            metrics.take_spans(content)
        else:
            _say({"sent": metrics.finish(content)})


def _say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)  # noqa: T201 - for the process that has started this one


if __name__ == "__main__":
    main(sys.argv[1:])
