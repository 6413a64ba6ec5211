"""`python -m MODULE` as a fork of a process that has imported what it needs, which takes most of a short run."""

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from servemark.paths import CHECKOUT

GOLDEN = ("tests.golden.server", "tests.golden.grpc", "tests.golden.methods", "grpc", "tritonclient.grpc.service_pb2")
ZOO = (f"servemark.models.{path.stem}" for path in (CHECKOUT / "servemark/models").glob("[a-z]*.py"))
GENERATOR = ("loadgen.__main__", *ZOO, "hdrh.histogram", "servemark.compare.quality", "servemark.views.kinds.run")


class Forked:
    """A fork, with what its users have of subprocess.Popen."""

    def __init__(self, source: "Source", pid: int, stdout: IO[str] | None) -> None:
        self.pid, self.stdout = pid, stdout
        self.returncode: int | None = None
        self._source, self._handle = source, os.pidfd_open(pid)

    def wait(self, timeout_s: float | None = None) -> int:
        """Return its exit code. Raises TimeoutExpired."""
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._handle, select.POLLIN)
            if not waiting.poll(None if timeout_s is None else 1000 * timeout_s):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout_s or 0)
            self.returncode = os.waitstatus_to_exitcode(self._source.ask({"reap": self.pid}))
            os.close(self._handle)
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            signal.pidfd_send_signal(self._handle, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Source:
    """A process with these modules that forks when it is asked to."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            line = [sys.executable, "-m", "tests.loadgen.forked", *modules]
            self._process = subprocess.Popen(line, cwd=CHECKOUT, stdin=theirs.fileno())
        SOURCES.append(self)

    def ask(self, order: dict[str, Any], *files: int) -> int:
        """Return the number that answers an order."""
        socket.send_fds(self._channel, [json.dumps(order).encode()], files)
        return int(self._channel.recv(64))

    def popen(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        stdout: IO[Any] | int | None = None,
        stderr: IO[Any] | int | None = None,
        **_: Any,
    ) -> Forked:
        """Start a command `python -m MODULE ...`, as subprocess.Popen does; its stdin is empty."""
        order = {"arguments": command[2:], "cwd": str(cwd or Path.cwd()), "environment": dict(env or os.environ)}
        reading = None
        with contextlib.ExitStack() as own:

            def number(file: IO[Any] | int | None, inherited: int) -> int:
                if file == subprocess.DEVNULL:
                    file = own.enter_context(Path(os.devnull).open("w"))
                return inherited if file is None else file if isinstance(file, int) else file.fileno()

            if stdout == subprocess.PIPE:
                reading, stdout = os.pipe()
                own.callback(os.close, stdout)
            out = number(stdout, 1)
            pid = self.ask(order, out, out if stderr == subprocess.STDOUT else number(stderr, 2))
        return Forked(self, pid, None if reading is None else os.fdopen(reading))

    def run(self, command: Sequence[str], *, cwd: Path, timeout: float, **_: Any) -> subprocess.CompletedProcess[str]:
        """Do what subprocess.run does that captures texts."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = self.popen(command, cwd=cwd, stdout=out, stderr=err)
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), err.read())

    def end(self) -> None:
        with self._channel:
            self._channel.shutdown(socket.SHUT_RDWR)
        self._process.wait(60)


SOURCES: list[Source] = []
"""All that this process has started."""
_source = functools.cache(Source)


def forking(modules: Sequence[str]) -> Any:
    """Return what a module that starts processes which import these has for `subprocess`."""
    own = {
        "Popen": lambda *command, **how: _source(modules).popen(*command, **how),
        "run": lambda *command, **how: _source(modules).run(*command, **how),
    }
    return SimpleNamespace(**vars(subprocess) | own)


def _become(order: dict[str, Any], files: list[int]) -> None:
    """Run a module in this process, a fork, and end it."""
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    module, *sys.argv[1:] = order["arguments"]
    package = hasattr(sys.modules[module], "__path__")
    sys.modules.pop(f"{module}.__main__" if package else module, None)  # it is to be __main__
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


def main() -> None:
    """Fork and reap as the orders at stdin say, and answer each with a number; until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    channel = socket.socket(fileno=os.dup(0))
    while True:
        order, files, *_ = socket.recv_fds(channel, 1 << 20, 2)
        if not order:
            return
        asked = json.loads(order)
        if "reap" in asked:
            answer = os.waitpid(asked["reap"], 0)[1]
        elif not (answer := os.fork()):
            channel.close()
            _become(asked, files)
        for file in files:
            os.close(file)
        channel.send(str(answer).encode())


if __name__ == "__main__":
    main()
