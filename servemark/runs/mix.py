"""Several workloads on one server, or sizes of requests, each with a share of the arrivals: ranking=0.7,ncf=0.3.

A Poisson process whose arrivals are dealt out at random with fixed shares is as many independent Poisson processes
with these shares of its rate (Kingman, Poisson Processes, section 5.1). So each workload is driven by a process of its
own, at its share of the rate and with its own recorder and verdict; they begin together.
"""

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec

from loadgen.evaluation.mix import Part, histograms, own_figures, requests_of, total
from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import same_warmup
from loadgen.targets.open import open_target
from servemark import interrupts
from servemark.documents.load import ConstantRate, Distribution
from servemark.documents.request import RunRequest, changed
from servemark.errors import ExitCode, NoResultError, OptionError, ResultError, ServerError
from servemark.output import note
from servemark.paths import shown
from servemark.results import directory as results
from servemark.results.directory import RESULT_FILE
from servemark.results.schema.run import Result
from servemark.runs.locust_process import Observer, launch, read_result, stopping
from servemark.runs.server import server_for
from servemark.workload import get

READY_TIMEOUT_S = 600.0
"""Serialising the requests of several large models takes minutes."""
TOGETHER_S = 0.5
"""From the word to begin until the schedules begin: every process must have read it by then."""
_POLL_S = 0.05

Observed = Callable[[ConstantRate], AbstractContextManager[Observer | None]]
"""Shows a mix while the block runs, if it yields an observer; gets the load of all workloads."""


def run_mix(
    shares: Mapping[str, float],
    config: LoadConfig,
    *,
    output: IO[Any] | int | None = None,
    observed: Observed = lambda _: contextlib.nullcontext(),
) -> tuple[Path, Result]:
    """Drive workloads at their shares of a configuration's rate; each has a seed of its own, counted from its seed.

    Returns the directory, in which each workload has its own, and the result. One server has all models.
    `observed` is entered with the load of all while the processes run; it yields their observer, if they have one.
    Raises OptionError, ArtifactError, ServerError, NoResultError.
    """
    whole = same_warmup(config.request.load)
    if not isinstance(whole, ConstantRate) or whole.distribution is not Distribution.POISSON:
        raise OptionError("a mix has Poisson arrivals at one rate", fix="--request-rate R")
    requests = [requests_of(name) for name in shares]
    loads = [
        replace(
            config.changed(
                workload=workload,
                **own,
                load=msgspec.structs.replace(whole, rate=whole.rate * share),
                seed=config.seed + number,
                # One meter for the whole mix.
                **({"power_command": "", "power_boundary": ""} if number else {}),
            ),
            workload=get(workload),
        )
        for number, ((workload, own), share) in enumerate(zip(requests, shares.values(), strict=True))
    ]
    with server_for(loads) as served:
        for each in served:  # before the first process sends anything
            with contextlib.closing(open_target(each)) as target:
                target.prepare()
        request = changed(config.request, load=whole)
        mix = _Mix(results.new_directory(config.out, "mix"), shares, served, request)
        try:
            with observed(whole) as observer:
                mix.run(output, observer)
        except KeyboardInterrupt:
            # What each process measured until then is kept, and so is what it adds up to.
            with contextlib.suppress(NoResultError, ResultError):
                mix.write()
                note(f"result: {shown(mix.folder)}")
            raise
    return mix.folder, mix.write()


def with_own_port(config: LoadConfig, number: int) -> LoadConfig:
    """Give the part with this number its own port of metrics, where there is one."""
    port = config.live.metrics_port
    return config.changed(metrics_port=port + number) if port else config


def _directory(name: str, model: str) -> str:
    """Directory of a part: its model, and what its requests have of their own."""
    _, _, own = name.partition(":")
    return "-".join([model, *re.findall(r"[\w.]+", own)])


class _Mix:
    """The processes of one mix, in the order of its shares."""

    def __init__(
        self, folder: Path, shares: Mapping[str, float], configs: Sequence[LoadConfig], request: RunRequest
    ) -> None:
        self.folder = folder
        self._shares, self._request = shares, request
        self._begin = folder / "begin"
        self._configs = {
            folder / _directory(name, config.model): with_own_port(config, number)
            for number, (name, config) in enumerate(zip(shares, configs, strict=True))
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self, output: IO[Any] | int | None, observer: Observer | None) -> None:
        """Start a process for each workload, tell all of them to begin once they are ready, and wait for their end."""
        names = [
            f"{folder.name}, {share:.1%}" for folder, share in zip(self._configs, self._shares.values(), strict=True)
        ]
        if observer:
            observer.started(*names)
        with stopping(self._processes):
            for (folder, config), name in zip(self._configs.items(), names, strict=True):
                folder.mkdir()
                placed = replace(config, result_dir=folder, start_file=self._begin)
                with observer.figures_of(name) if observer else contextlib.nullcontext() as figures:
                    errors = observer.words if observer else None
                    self._processes.append(launch(placed, output=output, errors=errors, figures=figures))
            try:
                self._wait_until_ready()
                results.write_atomically(self._begin, f"{time.monotonic_ns() + round(TOGETHER_S * 1e9)}\n")
                for process in self._processes:
                    interrupts.wait(process)
            finally:
                self._begin.unlink(missing_ok=True)

    def write(self) -> Result:
        """Add up what the processes left. Raises NoResultError where one has no result."""
        found = [read_result(f, process.returncode) for f, process in zip(self._configs, self._processes, strict=True)]
        parts = [
            Part(name, share, folder.name, result, results.read_histograms(folder))
            for (name, share), folder, result in zip(self._shares.items(), self._configs, found, strict=True)
        ]
        for part in parts:
            results.write(self.folder / part.directory, {**part.result, "figures": own_figures(part.result)})
        document = total(parts, self._request)
        results.write(self.folder, document, histograms(parts))
        return document

    def _wait_until_ready(self) -> None:
        """A run writes its result, marked partial, when it is ready to send. Raises NoResultError where one ended."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        files = [folder / RESULT_FILE for folder in self._configs]
        while not all(file.exists() for file in files):
            for folder, process in zip(self._configs, self._processes, strict=True):
                if process.poll() is not None:
                    read_result(folder, process.returncode)
                    raise NoResultError(process.returncode or ExitCode.INTERNAL)
            if time.monotonic() > deadline:
                raise ServerError(f"the workloads were not ready after {READY_TIMEOUT_S:g} s")
            interrupts.sleep(_POLL_S)
