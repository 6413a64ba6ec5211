"""The run's side of its metrics' process: starts it, and hands it snapshots without ever waiting for it."""

import contextlib
import fcntl
import importlib.util
import json
import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import urlsplit

from servemark import interrupts
from servemark.documents.live import Live
from servemark.errors import OptionError
from servemark.output import note
from servemark.results.schema.run import Telemetry
from servemark.telemetry.metrics.catalog import Snapshot, Span


def require_destinations(live: Live) -> None:
    """Check where a request sends metrics. Raises OptionError."""
    if live.otlp:
        _require("--otlp", "opentelemetry.exporter.otlp.proto.http")
    http_url("--otlp", live.otlp)


def http_url(flag: str, text: str) -> str:
    """A URL of HTTP without credentials, or "". Raises OptionError."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise OptionError(f"{flag} is not an HTTP URL", fix=f"write it like {flag} http://127.0.0.1:4318")
    if parts.username or parts.password:
        # A result holds the URL, and other users of the machine see the command line.
        raise OptionError(f"{flag} has credentials in its URL", fix=f"put those of {parts.hostname} in ~/.netrc")
    return text


def _require(flag: str, package: str) -> None:
    try:
        found = importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise OptionError(f"{flag} needs {package}, which is not installed", fix='pip install -e ".[telemetry]"')


START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 5.0
_ANSWER_S = 0.5
"""Extra time for the process to report, after its own deadline."""
PIPE_BYTES = 1 << 20
"""A snapshot has some 50 kB."""


class Publisher:
    """The process, for the length of a `with` block. Raises OptionError where it cannot listen.

    `publish` costs the caller some 0.1 ms, whatever becomes of the process.
    """

    def __init__(self, live: Live) -> None:
        self._destinations = {"host": live.metrics_host, "port": live.metrics_port, "otlp": live.otlp}
        self._rest = b""
        """Of a snapshot that the pipe had no room for yet."""
        self._broken = False

    def __enter__(self) -> Self:
        """Start it, and say where the endpoint is."""
        command = [sys.executable, "-m", "servemark.telemetry.metrics.process"]
        command.append(json.dumps(self._destinations))
        with interrupts.held_back():
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._pipe, self._answers = self._stdin.fileno(), self._stdout.fileno()
        try:
            with contextlib.suppress(OSError):  # a limit of the system: then a snapshot goes in parts
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            os.set_blocking(self._pipe, False)
            found = self._answer(START_TIMEOUT_S)
            if found is None:
                raise OptionError("the process of the metrics did not start", fix="run without --metrics-port and such")
            if "error" in found:
                place = "{host}:{port}".format(**self._destinations)
                raise OptionError(f"no metrics on {place}: {found['error']}", fix="--metrics-port 0 takes a free port")
        except BaseException:
            self._end()
            raise
        self.url: str | None = found["url"]
        if self.url:
            note(f"metrics: {self.url}")
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def publish(self, snapshot: Snapshot, spans: Sequence[Span] = ()) -> None:
        """Hand it a snapshot, and the spans since the last one.

        A snapshot for which there is no room is left out, since the next one has all of it; such spans are lost.
        """
        if spans and self._write():
            self._hand("spans", spans)
        if self._write():
            self._hand("snapshot", snapshot)

    def finish(self, snapshot: Snapshot, within_s: float, spans: Sequence[Span] = ()) -> list[Telemetry]:
        """Hand it the last one and wait until it is sent; what was sent to each place, after so long at most."""
        deadline = time.monotonic() + within_s
        for what, content in (("spans", spans), ("snapshot", snapshot), ("finish", within_s)):
            if self._drained(deadline):
                self._hand(what, content)
        answer = self._answer(deadline - time.monotonic() + _ANSWER_S) if self._drained(deadline) else None
        return answer["sent"] if answer else []

    def _hand(self, what: str, content: object) -> None:
        if not self._broken:
            self._rest = pickle.dumps((what, content), protocol=5)
            self._write()

    def _drained(self, deadline: float) -> bool:
        """Wait until nothing is left to write; whether that is so."""
        while not self._write():
            if (left_s := deadline - time.monotonic()) <= 0:
                return False
            select.select([], [self._pipe], [], left_s)
        return not self._broken

    def _write(self) -> bool:
        """Write what is left; whether nothing is."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._pipe, self._rest) :]
        except BlockingIOError:
            return False
        except OSError as error:
            self._rest, self._broken = b"", True
            note(f"the metrics have ended: {error.strerror}; the run goes on")
        return True

    def _answer(self, timeout_s: float) -> dict[str, Any] | None:
        """Return its next line of JSON; None if it sends nothing."""
        deadline, line = time.monotonic() + timeout_s, b""
        while not line.endswith(b"\n"):
            if not select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))[0]:
                return None
            part = os.read(self._answers, 65_536)
            if not part:
                return None
            line += part
        document: dict[str, Any] = json.loads(line)
        return document

    def _end(self) -> None:
        """End it: it follows its stdin."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()
