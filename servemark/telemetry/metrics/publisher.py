"""The run's side of its metrics' process: starts it, and hands it snapshots without ever waiting for it."""

import contextlib
import fcntl
import json
import os
import pickle
import select
import subprocess
import sys
import time
from typing import Any, Self

from servemark.errors import OptionError
from servemark.output import note
from servemark.telemetry.metrics.destinations import Destinations
from servemark.telemetry.metrics.snapshot import Snapshot

START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 5.0
PIPE_BYTES = 1 << 20
"""A snapshot has some 50 kB."""


class Publisher:
    """The process, for the length of a `with` block. Raises OptionError where it cannot listen.

    `publish` costs the caller some 0.1 ms, whatever becomes of the process.
    """

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self._rest = b""
        """Of a snapshot that the pipe had no room for yet."""
        self._broken = False

    def __enter__(self) -> Self:
        """Start it, and say where the endpoint is."""
        command = [sys.executable, "-m", "servemark.telemetry.metrics.process"]
        command.append(json.dumps(self._destinations.to_dict()))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipe, self._answers = self._process.stdin.fileno(), self._process.stdout.fileno()
        try:
            with contextlib.suppress(OSError):  # a limit of the system: then a snapshot goes in parts
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            os.set_blocking(self._pipe, False)
            found = self._answer(START_TIMEOUT_S)
            if found is None or "error" in found:
                place = f"{self._destinations.metrics_host}:{self._destinations.metrics_port}"
                why = found["error"] if found else "its process did not start"
                raise OptionError(f"no metrics on {place}: {why}", fix="--metrics-port 0 takes a free port")
        except BaseException:
            self._end()
            raise
        self.url: str | None = found["url"]
        if self.url:
            note(f"metrics: {self.url}")
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def publish(self, snapshot: Snapshot) -> None:
        """Hand it a snapshot; one that it has no room for is left out, since the next one has all of it."""
        if self._write() and not self._broken:
            self._rest = pickle.dumps(snapshot.pack(), protocol=5)
            self._write()

    def finish(self, snapshot: Snapshot) -> None:
        """Hand it the last one, and wait a little where it is behind."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while not self._write() and time.monotonic() < deadline:
            select.select([], [self._pipe], [], deadline - time.monotonic())
        self.publish(snapshot)
        while not self._write() and time.monotonic() < deadline:
            select.select([], [self._pipe], [], deadline - time.monotonic())

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def wait(self) -> None:
        """Wait until it has ended."""
        self._process.wait()

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
        """What it says next, a line of JSON; None where it says nothing."""
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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
