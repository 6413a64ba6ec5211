"""A server's process: its ports, its start under guard, questions until it is ready, and its end."""

import abc
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from servemark import interrupts
from servemark.errors import ServerError
from servemark.machine.scratch import Scratch
from servemark.telemetry.http_request import Reply, ask
from servers.launch.guard import AFTERWARDS_S

GUARD = Path(__file__).with_name("guard.py")
GRACE_S = 5.0
TAIL_BYTES = 16_384
POLL_S = 0.05
REQUEST_TIMEOUT_S = 5.0


def claim_ports(host: str, ports: Mapping[str, int]) -> dict[str, int]:
    """Check that the ports (flag -> number) are free on a host and replace each 0 by a free port.

    Raises ServerError naming the first port that is taken and, where it may be known, the process that holds it.
    """
    claimed: dict[str, int] = {}
    with contextlib.ExitStack() as stack:  # all are held until all are known, so that no port is given out twice
        for flag, port in ports.items():
            listener = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            # connections of an earlier server in TIME_WAIT do not make a port taken
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, port))
                listener.listen(1)
            except OSError as error:
                raise ServerError(
                    f"cannot listen on {host}:{port}: {error.strerror}{_holder(port)}",
                    fix=f"choose another port with {flag} PORT (0 picks a free one), or end that process",
                ) from error
            claimed[flag] = listener.getsockname()[1]
    return claimed


def _holder(port: int) -> str:
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if local and local.port == port and connection.status == psutil.CONN_LISTEN and connection.pid:
                return f"; held by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return ""


def request(
    endpoint: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> Reply:
    """Ask "host:port", by POST where there is a body. Raises OSError, and KeyboardInterrupt on a signal."""
    try:
        with interrupts.anywhere():
            return ask(endpoint, path, body=body, headers=headers, timeout_s=timeout_s)
    except HTTPException as error:
        raise OSError(f"no HTTP server: {error!r}") from error


def wait_until_ready(probe: Callable[[], list[str]], timeout_s: float, check: Callable[[], None]) -> None:
    """Return as soon as nothing is waiting any more.

    `probe` names what is not ready yet, or raises OSError where nothing listens yet. `check` is asked at every turn
    and raises when the server has ended. Raises ServerError as soon as a model fails to load, with Triton's own
    message, and when `timeout_s` has passed.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        check()
        try:
            waiting = probe()
        except OSError as error:
            waiting = [f"the server ({error})"]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise ServerError(f"not ready after {timeout_s:g} s: {', '.join(waiting)}")
        interrupts.sleep(POLL_S)


@dataclass(frozen=True)
class Command:
    """A process to run: `remove` are glob patterns of files to delete, `afterwards` a command to run once it has ended.

    `claim` is a file that is there, and locked, for as long as the command may run.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    remove: Sequence[str] = ()
    afterwards: Sequence[str] = ()
    claim: str = ""
    contained: bool = False
    """True if what it starts are a container engine's processes, not its own."""


class Process:
    """A command under guard: it ends with this object's owner, however that one ends."""

    def __init__(self, command: Command, log: Path) -> None:
        self.log = log
        self._command = command
        self._started_s = time.monotonic()
        order = {
            "parent": os.getpid(),
            "command": list(command.argv),
            "grace_s": GRACE_S,
            "remove": list(command.remove),
            "afterwards": list(command.afterwards),
            "claim": command.claim,
        }
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is servemark's to handle, not the server's
                env=dict(command.environment),
            )

    @property
    def root(self) -> int | None:
        """The guard, from which all processes of the command descend. None: they are a container's."""
        return None if self._command.contained else self._guard.pid

    @property
    def age_s(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._started_s

    def check(self) -> None:
        """Raise ServerError with the last lines of the log if the process has ended."""
        status = self._guard.poll()
        if status is not None:
            program = Path(self._command.argv[0]).name
            raise ServerError(
                f"{program} ended with exit status {status}; its last lines:\n{self.tail()}", fix=f"read {self.log}"
            )

    def children(self) -> list[psutil.Process]:
        """Processes that the command has started, as far as they can be seen from here."""
        try:
            commands = psutil.Process(self._guard.pid).children()
            return [process for command in commands for process in command.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def tail(self, lines: int = 15) -> str:
        """Read the last lines of the log."""
        with self.log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            text = file.read().decode(errors="replace")
        kept = [line for line in text.splitlines() if line.strip() and not line.startswith(("+--", "| "))]
        return "\n".join(kept[-lines:])

    def stop(self) -> None:
        """End the process and all it started; does nothing where it has ended already."""
        with contextlib.suppress(ProcessLookupError):
            self._guard.terminate()
        try:
            self._guard.wait(GRACE_S * 3 + (AFTERWARDS_S if self._command.afterwards else 0.0))
        except subprocess.TimeoutExpired:
            os.killpg(self._guard.pid, signal.SIGKILL)  # the server dies with its guard
            self._guard.wait()


class GuardedServer(abc.ABC):
    """A server as a guarded process, with a scratch folder of its own. Its endpoints are known once started.

    As a context manager it is started and ready inside, and gone afterwards.
    """

    def __init__(self, start_timeout_s: float) -> None:
        self.startup_s = 0.0
        """Time from the start of its process until it was ready."""
        self._start_timeout_s = start_timeout_s
        self._process: Process | None = None
        self._scratch: Scratch | None = None

    @abc.abstractmethod
    def start(self) -> None:
        """Start the process. Raises ServerError."""

    @abc.abstractmethod
    def wait_ready(self, timeout_s: float) -> None:
        """Return once it can be asked. Raises ServerError."""

    @abc.abstractmethod
    def _endpoint(self, service: str) -> str:
        """Return the "host:port" of http, grpc or metrics."""

    @property
    def http(self) -> str:
        """The HTTP endpoint, "host:port"."""
        return self._endpoint("http")

    @property
    def grpc(self) -> str:
        """The gRPC endpoint, "host:port"."""
        return self._endpoint("grpc")

    @property
    def root(self) -> int | None:
        """The process from which all of its processes descend; None before the start, and of a container."""
        return self._process.root if self._process else None

    def check(self) -> None:
        """Raise ServerError, with the last lines of the log, if the server has died."""
        if self._process is None:
            raise ServerError("the server has not been started")
        self._process.check()

    def stop(self) -> None:
        """End the server and everything it started."""
        if self._process:
            self._process.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready(self._start_timeout_s)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._scratch is not None:
            self._scratch.end(failed=kind is not None and kind is not KeyboardInterrupt and self._process is not None)
