"""One run as a process of its own: the task's locustfile, headless, against a server; its result is read back."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from loadgen.load.load_config import LoadConfig
from servemark import interrupts
from servemark.errors import ExitCode, NoResultError, OptionError
from servemark.output import note
from servemark.paths import LOCUSTFILES
from servemark.results import directory as results
from servemark.results.schema.run import Result

_GRACE_S = 30.0


def drive(
    config: LoadConfig,
    *,
    workers: int = 1,
    output: IO[Any] | int | None = None,
    errors: IO[Any] | int | None = None,
) -> Result:
    """Run the task's locustfile and read its result, from a new directory where `config` names none.

    The load comes from so many `workers`; `output` and `errors` take what the run prints on stdout and stderr. Raises
    NoResultError with Locust's exit code where there is no result: it has said why on stderr.
    """
    directory = config.result_dir or results.new_directory(config.out, config.model)
    process = launch(replace(config, result_dir=directory), workers=workers, output=output, errors=errors)
    with stopping([process]):
        code = interrupts.wait(process)
    return read_result(directory, code)


def drive_captured(config: LoadConfig, *, workers: int = 1) -> Result:
    """Drive a run whose own report is in its directory; what it says is shown where it fails. Raises NoResultError."""
    with tempfile.TemporaryFile("w+") as said:
        try:
            return drive(config, workers=workers, output=subprocess.DEVNULL, errors=said)
        except NoResultError:
            said.seek(0)
            note(said.read().rstrip())
            raise


def launch(
    config: LoadConfig,
    *,
    workers: int = 1,
    output: IO[Any] | int | None = None,
    errors: IO[Any] | int | None = None,
) -> "subprocess.Popen[bytes]":
    """Start the task's locustfile as a process that writes its result. Raises OptionError, OSError."""
    locustfile = LOCUSTFILES / f"{config.workload.locustfile}.py"
    if not locustfile.is_file():
        raise OptionError(
            f"{config.workload.name} is driven by {locustfile}, which is not there",
            fix='CONTRIBUTING.md, "Add a workload", shows one',
        )
    command = [sys.executable, "-m", "locust", "-f", str(locustfile), "--headless", "--only-summary"]
    command += ["--skip-log-setup", *config.arguments()]
    if workers > 1:
        port = _free_port()
        command += [f"--processes={workers}"]
        command += ["--master-bind-host=127.0.0.1", f"--master-bind-port={port}", f"--master-port={port}"]
    owned = {**os.environ, interrupts.OWNER: str(os.getpid())}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=owned)


def _free_port() -> int:
    """A port for the master, so that several runs with workers can go on at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    result = results.read_run(directory) if (directory / results.RESULT_FILE).exists() else None
    if result is None or result["verdict"] is None:
        # Locust has said why on stderr; the code is the one it ended with.
        with contextlib.suppress(OSError):
            directory.rmdir()
        raise NoResultError(code or ExitCode.INTERNAL)
    return result
