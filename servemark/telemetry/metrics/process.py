"""The process that exposes a run's metrics: it reads snapshots from stdin until that ends, and serves the last one."""

import json
import pickle
import signal
import sys
from typing import Any

from servemark.telemetry.metrics.destinations import Destinations
from servemark.telemetry.metrics.endpoint import Endpoint
from servemark.telemetry.metrics.snapshot import Snapshot


class Metrics:
    """The last snapshot, and where it goes. Raises OSError where it cannot listen."""

    def __init__(self, destinations: Destinations) -> None:
        self._last: Snapshot | None = None
        self._endpoint: Endpoint | None = None
        if destinations.metrics_port is not None:
            self._endpoint = Endpoint(destinations.metrics_host, destinations.metrics_port, lambda: self._last)

    @property
    def url(self) -> str | None:
        """Where the endpoint is."""
        return self._endpoint.url if self._endpoint else None

    def take(self, packed: Any) -> None:
        """Expose another snapshot."""
        self._last = Snapshot.unpack(packed)


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
            packed = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that has started this one
        except (EOFError, pickle.UnpicklingError):
            return
        metrics.take(packed)


def _say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)  # noqa: T201 - for the process that has started this one


if __name__ == "__main__":
    main(sys.argv[1:])
