"""One run as a process of its own: the task's locustfile, headless, against a server; its result is read back."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol

from loadgen.evaluation.live import LIVE_FD
from loadgen.load.load_config import LoadConfig
from servemark import interrupts
from servemark.documents.saved_load import title
from servemark.errors import ExitCode, NoResultError, OptionError
from servemark.output import ERRORS, SAYS
from servemark.paths import LOCUSTFILES
from servemark.results import directory as results
from servemark.results.schema.run import Result

_GRACE_S = 30.0
_PORTS = range(10_048, 32_768)
"""The master's. Linux gives those above to connections, so one of them may be taken before the master has it."""


class Observer(Protocol):
    """Takes the figures of runs while they go on, and their words, so that they show nothing themselves."""

    words: int
    """Descriptor of a pipe that takes what a run writes."""

    def started(self, *names: str) -> None:
        """These runs go on from now, and no others."""

    def figures_of(self, name: str) -> AbstractContextManager[int]:
        """Start the run of this name in the block, which gives a pipe for `LiveFigures`, one JSON document a line.

        The run has ended when the pipe is closed.
        """

    def say(self, line: str) -> None:
        """Take a line about what goes on."""


def drive(config: LoadConfig, *, workers: int = 1, observer: Observer | None = None) -> Result:
    """Run the task's locustfile and return its result, from a new directory where `config` names none. Prints nothing.

    `workers` is the number of processes that send the load; an `observer` hears of the run while it goes on. Raises
    NoResultError with what the run said and Locust's exit code where there is no result, and KeyboardInterrupt.
    """
    with tempfile.TemporaryFile("w+") as said:
        try:
            return drive_into(config, subprocess.DEVNULL, said, workers=workers, observer=observer)
        except NoResultError as error:
            said.seek(0)
            raise NoResultError(error.exit_code, "\n".join(filter(None, [said.read().rstrip(), error.said]))) from None


def drive_into(
    config: LoadConfig,
    output: IO[Any] | int | None,
    errors: IO[Any] | int | None,
    *,
    workers: int = 1,
    observer: Observer | None = None,
) -> Result:
    """Make a run as `drive` does; its report goes to `output` and what it says to `errors`, None: as this process's.

    A run that has an `observer` reports its progress to it, and prints nothing. Raises NoResultError, whose reason is
    among what it says.
    """
    directory = config.result_dir or results.new_directory(config.out, config.model)
    config = replace(config, result_dir=directory)
    name = title(config.scenario.load, config.scenario.to_dict())
    if observer:
        observer.started(name)
    with observer.figures_of(name) if observer else contextlib.nullcontext() as figures:
        process = launch(config, workers=workers, output=output, errors=errors, figures=figures)
    with stopping([process]):
        code = interrupts.wait(process)
    return read_result(directory, code)


def launch(
    config: LoadConfig,
    *,
    workers: int = 1,
    output: IO[Any] | int | None = None,
    errors: IO[Any] | int | None = None,
    figures: int | None = None,
) -> "subprocess.Popen[bytes]":
    """Start the task's locustfile as a process that writes its result. Raises OptionError, OSError.

    Where there is a descriptor for its `figures`, it writes them there and shows nothing itself.
    """
    locustfile = LOCUSTFILES / f"{config.workload.locustfile}.py"
    if not locustfile.is_file():
        raise OptionError(
            f"{config.workload.name} is driven by {locustfile}, which is not there",
            fix='docs/guides/own_model.md, "A workload file", shows one',
        )
    command = [sys.executable, "-m", "loadgen", "-f", str(locustfile), "--headless", "--only-summary"]
    command += ["--skip-log-setup", "--request", str(config.order.place())]
    if workers > 1:
        port = _free_port()
        command += [f"--processes={workers}"]
        command += ["--master-bind-host=127.0.0.1", f"--master-bind-port={port}", f"--master-port={port}"]
    owned = {**os.environ, interrupts.OWNER: str(os.getpid()), SAYS: os.environ.get(SAYS, ERRORS)}
    if figures is not None:
        owned[LIVE_FD] = str(figures)
    passed = () if figures is None else (figures,)
    with interrupts.held_back():
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=owned, pass_fds=passed
        )


def _free_port() -> int:
    """A port for the master, so that several runs with workers can go on at once."""
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OptionError("--workers: no port is free for Locust's master", fix="end what listens, or leave out --workers")


@contextlib.contextmanager
def stopping(processes: Sequence["subprocess.Popen[bytes]"]) -> Iterator[None]:
    """Leave no process behind: where the block is cut short, each writes what it measured and ends."""
    try:
        yield
    except BaseException:
        # The terminal's Ctrl-C reached Locust too; a SIGTERM only us.
        for process in processes:
            process.terminate()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
        raise
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def read_result(directory: Path, code: int) -> Result:
    """The result of a run that ended with `code`. Raises NoResultError where there is none."""
    result = results.read_begun(directory) if (directory / results.RESULT_FILE).exists() else None
    if result is None or result["verdict"] is None:
        # Locust has said why on stderr; the code is the one it ended with.
        results.discard(directory)
        if code < 0:
            ended = f"the load generator was ended by {signal.Signals(-code).name}; `dmesg` says if memory ran out"
            raise NoResultError(interrupts.EXIT_CODE, ended)
        raise NoResultError(code or ExitCode.INTERNAL)
    return result
