"""Sends snapshots to a collector every few seconds and at the end, on a thread of its own; what fails is counted."""

from collections.abc import Callable
from threading import Event, Thread

from servemark.output import note
from servemark.results.schema.run import Telemetry
from servemark.telemetry.metrics.snapshot import Snapshot

EVERY_S = 5.0
TIMEOUT_S = 2.0
"""Of connecting, and of each wait for an answer."""

Send = Callable[[Snapshot], None]
"""Sends one snapshot. Raises OSError or ValueError with the reason where it was not taken."""


class Pusher:
    """The place to which snapshots go; the first failure is told, and none stops anything."""

    def __init__(self, url: str, send: Send, *, every_s: float = EVERY_S) -> None:
        self._send, self._every_s = send, every_s
        self._sent: Telemetry = {"to": "otlp", "url": url, "sent": 0, "failed": 0, "error": None}
        self._last: Snapshot | None = None
        self._final, self._ended = Event(), Event()
        Thread(target=self._run, daemon=True).start()

    def take(self, snapshot: Snapshot) -> None:
        """Have a newer snapshot sent when it is time."""
        self._last = snapshot

    def finish(self, within_s: float) -> Telemetry:
        """Send the last one now, and no more; wait for it within `within_s`, and return the counts."""
        self._final.set()
        ended = self._ended.wait(within_s)
        error = self._sent["error"] if ended else "the last snapshot was not taken in time"
        return {**self._sent, "failed": self._sent["failed"] + (not ended), "error": error}

    def _run(self) -> None:
        while not self._final.is_set():
            self._final.wait(self._every_s)
            if self._last is not None:
                self._try(self._last)
        self._ended.set()

    def _try(self, snapshot: Snapshot) -> None:
        try:
            self._send(snapshot)
        except (OSError, ValueError) as error:
            if not self._sent["failed"]:
                note(f"metrics: OTLP {self._sent['url']}: {reason(error)}; the run goes on")
            self._sent["failed"] += 1
            self._sent["error"] = reason(error)
        else:
            self._sent["sent"] += 1


def reason(error: BaseException) -> str:
    """The words of what is behind an error: of a refused connection just that, not the libraries on its way."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(getattr(error, "strerror", None) or error)
