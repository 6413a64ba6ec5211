"""A golden server in a process of its own, whatever protocol it speaks."""

import dataclasses
import json
import select
import subprocess
import sys
from typing import Any, Self

from servemark.paths import CHECKOUT

WITHIN_S = 60.0


class GoldenProcess:
    """The process, for the length of a `with` block.

    It runs `module`, which takes its behaviour as JSON and prints its ports as one JSON line once it takes connections:
    `port`, and `plain`, which is the same one or, beside one with TLS, one without it.
    """

    def __init__(self, module: str, behaviour: Any, scheme: str) -> None:
        self.behaviour = behaviour
        self.port = self.plain_port = 0
        self.config = json.dumps(dataclasses.asdict(behaviour))
        self._scheme = f"{scheme}s" if behaviour.certificate else scheme
        self._command = [sys.executable, "-m", module, "--config", self.config]

    @property
    def address(self) -> str:
        """host:port, as tritonclient takes it."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """scheme://host:port, the scheme with an s where there is a certificate."""
        return f"{self._scheme}://{self.address}"

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def __enter__(self) -> Self:
        """Start it and wait until it takes connections. Raises TimeoutError or RuntimeError."""
        self._process = subprocess.Popen(self._command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        try:
            if not select.select([self._process.stdout], [], [], WITHIN_S)[0]:
                raise TimeoutError(f"the golden server is not up after {WITHIN_S} s")
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"the golden server ended with status {self._process.wait(WITHIN_S)}")
            ports = json.loads(line)
            self.port, self.plain_port = ports["port"], ports["plain"]
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process; safe to call twice."""
        self._process.terminate()
        try:
            self._process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait(WITHIN_S)
