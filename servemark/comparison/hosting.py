"""Servers for engines that take turns: one for all of them, one for each turn, or one that runs already."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import servers
from loadgen.load.load_config import LoadConfig
from loadgen.targets.control import control_of
from servemark.comparison.contenders import Contender, able
from servemark.errors import ServerError
from servemark.machine import limits
from servemark.output import note
from servemark.runs.locust_process import address_of, check

START_TIMEOUT_S = 300.0
"""Triton loads the models of a comparison one after another; some engines take a minute to start."""
ENGINE_BYTES = 1 << 30
"""What a framework takes in memory besides the model; PyTorch and TensorFlow come near."""
WEIGHT_COPIES = 3
"""A file's bytes in memory: as it was read, as the engine packs it, and room for what is computed."""

Host = Callable[[str], AbstractContextManager[str]]
"""Model name -> a context in which its server answers at the URL."""


@dataclass(frozen=True)
class Place:
    """A contender with its model's name on the server and the load it is given; `flags` are the locustfile's."""

    contender: Contender
    model: str
    config: LoadConfig
    flags: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The contender's name, unique in the comparison."""
        return self.contender.label

    def lasting(self, duration_s: float) -> "Place":
        """The same with runs of another length. Raises OptionError."""
        flags = {**self.flags, "duration": f"{duration_s:g}"}
        return replace(self, flags=flags, config=check(flags, self.config.seed, self.config.address))


def given(places: Sequence[Place]) -> Host:
    """A server that runs already; every model is asked for first. Raises ServerError."""
    for place in places:
        config = place.config
        control_of(config).require_model(config.model, config.workload, config.entry.serve_command())
    return lambda _: contextlib.nullcontext(places[0].config.address)


@contextlib.contextmanager
def together(repository: Path, models: Sequence[str], protocol: str) -> Iterator[Host]:
    """One Triton with all models: those that wait for their turn cost memory and no time."""
    with servers.open_server(
        "auto", repository, list(dict.fromkeys(models)), start_timeout_s=START_TIMEOUT_S
    ) as server:
        yield lambda _: contextlib.nullcontext(address_of(server, protocol))
        try:
            server.check()
        except ServerError as error:
            # The runs have their verdicts, INVALID; this says why.
            note(str(error))


def alone(repository: Path, protocol: str) -> Host:
    """A Triton of its own for each turn."""

    @contextlib.contextmanager
    def host(model: str) -> Iterator[str]:
        with servers.open_server("auto", repository, [model], start_timeout_s=START_TIMEOUT_S) as server:
            yield address_of(server, protocol)

    return host


def loaded(
    chosen: Sequence[Contender], models: Mapping[str, str], host: Host, left_out: dict[str, str], *, skip: bool
) -> list[Contender]:
    """Those that a server of their own can load, before anything is measured. Raises as `able` does."""

    def load(contender: Contender) -> None:
        with host(models[contender.label]):
            pass

    return able(chosen, load, left_out, skip=skip)


def fit_together(folders: Sequence[Path]) -> bool:
    """Whether all models fit into this machine's free memory at once, by a rough and generous estimate."""
    sizes = [sum(file.stat().st_size for file in (folder / "1").rglob("*") if file.is_file()) for folder in folders]
    return sum(WEIGHT_COPIES * size + ENGINE_BYTES for size in sizes) < limits.memory().available_bytes
