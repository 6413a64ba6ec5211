"""One run as a process of its own: the task's locustfile, headless, against a server; its result is read back."""

import contextlib
import os
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from loadgen.load.load_config import LoadConfig
from loadgen.targets.control import control_of
from loadgen.transport.server_url import METRICS
from servemark import interrupts
from servemark.errors import ExitCode, OptionError, ServerError
from servemark.output import note
from servemark.paths import LOCUSTFILES
from servemark.repository.model_config import Settings
from servemark.results import directory as results
from servemark.runs.entries import entries, repository_with

if TYPE_CHECKING:
    from servers import Server

_GRACE_S = 30.0
UNCHANGED = Settings()


def check(flags: Mapping[str, Any], seed: int, url: str) -> LoadConfig:
    """Resolve one run's options as the locustfile will. Raises OptionError."""
    absent = {"request_rate": None, "num_users": None, "stages": "", "trace": "", "start_file": "", "result_dir": ""}
    return LoadConfig.from_options(Namespace(**absent | dict(flags) | {"seed": seed, "host": url}))


@contextlib.contextmanager
def server_for(config: LoadConfig, url: str, settings: Settings = UNCHANGED) -> Iterator[str]:
    """The given server, else one that already serves the model at the default port, else an embedded one.

    Settings are those of a server of our own, so a model that must have some is never taken from another one.
    """
    if url:
        if settings:
            raise OptionError(f"{url} has its own settings", fix="leave out --url, or --device, --option, --instances")
        yield config.address
        return
    if not settings and _serves(config):
        note(f"using the server at {config.url}")
        yield config.address
        return
    import servers

    found = entries([config.workload.name], config.engine, config.model_repository, config.precision)
    with (
        repository_with(config.model_repository, found, settings) as repository,
        servers.open_server("auto", repository, [entry.model for entry in found]) as server,
    ):
        yield address_of(server, config.protocol)
        try:
            server.check()
        except ServerError as error:
            # The run has its verdict, INVALID; this says why.
            note(str(error))


def address_of(server: "Server", protocol: str) -> str:
    """A server of our own as --url names it."""
    metrics = f"{METRICS}{server.metrics}" if server.metrics else ""
    return f"{protocol}://{server.grpc if protocol == 'grpc' else server.http}{metrics}"


def _serves(config: LoadConfig) -> bool:
    """Whether the model is served where the configuration says, which is the default."""
    try:
        control_of(config).require_model(config.model, config.workload, "")
    except ServerError:
        return False
    return True


def drive(
    config: LoadConfig,
    flags: Mapping[str, Any],
    *,
    directory: Path | None = None,
    output: IO[Any] | int | None = None,
    errors: IO[Any] | int | None = None,
) -> dict[str, Any]:
    """Run the task's locustfile and read its result.

    `flags` are the locustfile's, by name; `directory` is the result directory, by default a new one in `config.out`;
    `output` and `errors` take what the run prints on stdout and stderr. Raises typer.Exit with Locust's code where
    there is no result: it has said why on stderr.
    """
    directory = directory or results.new_directory(config.out, config.model)
    process = launch(config, flags, directory, output=output, errors=errors)
    with stopping([process]):
        code = interrupts.wait(process)
    return read_result(directory, code)


def launch(
    config: LoadConfig,
    flags: Mapping[str, Any],
    directory: Path,
    *,
    output: IO[Any] | int | None = None,
    errors: IO[Any] | int | None = None,
) -> "subprocess.Popen[bytes]":
    """Start the task's locustfile as a process that writes its result to `directory`. Raises OptionError, OSError."""
    locustfile = LOCUSTFILES / f"{config.workload.locustfile}.py"
    if not locustfile.is_file():
        raise OptionError(
            f"{config.workload.name} is driven by {locustfile}, which is not there",
            fix='CONTRIBUTING.md, "Add a workload", shows one',
        )
    command = [sys.executable, "-m", "locust", "-f", str(locustfile), "--headless", "--only-summary"]
    command += ["--skip-log-setup", f"--result-dir={directory}"]
    if "processes" in flags:
        port = _free_port()
        command += ["--master-bind-host=127.0.0.1", f"--master-bind-port={port}", f"--master-port={port}"]
    for name, value in flags.items():
        flag = {"num_users": "--users"}.get(name, f"--{name.replace('_', '-')}")
        if isinstance(value, bool):
            command += [flag] * value
        else:
            command += [f"{flag}={value}"] if str(value) else []
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


def read_result(directory: Path, code: int) -> dict[str, Any]:
    """The result of a run that ended with `code`. Raises typer.Exit where there is none."""
    result = results.read(directory) if (directory / results.RESULT_FILE).exists() else None
    if result is None or result["verdict"] is None:
        # Locust has said why on stderr; the code is the one it ended with.
        with contextlib.suppress(OSError):
            directory.rmdir()
        raise typer.Exit(code or int(ExitCode.INTERNAL))
    return result
