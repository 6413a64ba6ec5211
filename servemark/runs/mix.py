"""`servemark run ranking=0.7,ncf=0.3`: several workloads on one server at given shares of the arrivals.

A Poisson process whose arrivals are dealt out at random with fixed shares is as many independent Poisson processes
with these shares of its rate (Kingman, Poisson Processes, section 5.1). So each workload is driven by a process of its
own, at its share of the rate and with its own recorder and verdict; they begin together.
"""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import typer

from loadgen.evaluation.mix import Part, histograms, parse_mix, total, without_energy
from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import Mode
from servemark import interrupts
from servemark.errors import ExitCode, OptionError, ResultError, ServerError
from servemark.results import directory as results
from servemark.results.directory import RESULT_FILE
from servemark.runs.entries import entries
from servemark.runs.locust_process import address_of, check, launch, read_result, stopping

READY_TIMEOUT_S = 600.0
"""Serialising the requests of several large models takes minutes."""
TOGETHER_S = 0.5
"""From the word to begin until the schedules begin: every process must have read it by then."""
_POLL_S = 0.05


def run_mix(
    text: str, flags: Mapping[str, Any], *, seed: int, url: str, output: IO[Any] | int | None
) -> tuple[Path, dict[str, Any]]:
    """Drive a mix and write its result; the directory, in which each workload has its own, and the result."""
    shares = parse_mix(text)
    loads = [{**flags, "model": name, "request_rate": flags["request_rate"] * share} for name, share in shares.items()]
    configs = [check(load, seed + number, url) for number, load in enumerate(loads)]
    if any(config.scenario.mode is not Mode.OPEN for config in configs) or flags["request_distribution"] != "poisson":
        raise OptionError("a mix has Poisson arrivals at one rate", fix="--request-rate R")
    with _server(configs, url) as address:
        folder = results.new_directory(configs[0].out, "mix")
        processes: list[subprocess.Popen[bytes]] = []
        try:
            with stopping(processes):
                _drive_together(processes, folder, configs, loads, seed=seed, host=address, output=output)
        except KeyboardInterrupt:
            # What each process measured until then is kept, and so is what it adds up to.
            with contextlib.suppress(typer.Exit, ResultError):
                _write(folder, configs, processes, shares, flags["request_rate"])
            raise
    return folder, _write(folder, configs, processes, shares, flags["request_rate"])


def _drive_together(
    processes: list["subprocess.Popen[bytes]"],
    folder: Path,
    configs: Sequence[LoadConfig],
    loads: Sequence[Mapping[str, Any]],
    *,
    seed: int,
    host: str,
    output: IO[Any] | int | None,
) -> None:
    """Start a process for each workload, tell all of them when to begin once they are ready, and wait for their end."""
    begin = folder / "begin"
    for number, (config, load) in enumerate(zip(configs, loads, strict=True)):
        directory = folder / config.model
        directory.mkdir()
        own = {**load, "seed": seed + number, "host": host, "start_file": begin}
        processes.append(launch(config, own, directory, output=output))
    try:
        _wait_until_ready(processes, [folder / config.model / RESULT_FILE for config in configs])
        results.write_atomically(begin, f"{time.monotonic_ns() + round(TOGETHER_S * 1e9)}\n")
        for process in processes:
            interrupts.wait(process)
    finally:
        begin.unlink(missing_ok=True)


def _write(
    folder: Path,
    configs: Sequence[LoadConfig],
    processes: Sequence["subprocess.Popen[bytes]"],
    shares: Mapping[str, float],
    rate: float,
) -> dict[str, Any]:
    """Add up what the processes left. Raises typer.Exit where one has no result."""
    found = [read_result(folder / c.model, p.returncode) for c, p in zip(configs, processes, strict=True)]
    parts = [
        Part(share, config.model, result, results.read_histograms(folder / config.model))
        for share, config, result in zip(shares.values(), configs, found, strict=True)
    ]
    for part in parts:
        results.write(folder / part.directory, without_energy(part.result))
    document = total(parts, {"requested_rate": rate})
    results.write(folder, document, histograms(parts))
    return document


def _wait_until_ready(processes: Sequence["subprocess.Popen[bytes]"], files: Sequence[Path]) -> None:
    """A run writes its result, marked partial, when it is ready to send. Raises typer.Exit where one ended instead."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not all(file.exists() for file in files):
        ended = [process.returncode for process in processes if process.poll() is not None]
        if ended:
            raise typer.Exit(ended[0] or int(ExitCode.INTERNAL))
        if time.monotonic() > deadline:
            raise ServerError(f"the workloads were not ready after {READY_TIMEOUT_S:g} s")
        interrupts.sleep(_POLL_S)


@contextlib.contextmanager
def _server(configs: Sequence[LoadConfig], url: str) -> Iterator[str]:
    """The given server, else an embedded one with all the models."""
    first = configs[0]
    if url:
        yield first.address
        return
    import servers

    names = [config.workload.name for config in configs]
    found = entries(names, first.engine, first.model_repository, first.precision)
    with servers.open_server("auto", first.model_repository, [entry.model for entry in found]) as server:
        yield address_of(server, first.protocol)
        server.check()
