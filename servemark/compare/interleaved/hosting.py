"""Servers for engines that take turns: one for all of them, one for each turn, or one that runs already."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

import servers
from loadgen.load.load_config import LoadConfig
from loadgen.targets.control import control_of
from servemark.compare.interleaved.contenders import Contender
from servemark.machine import limits
from servemark.runs.server import address_of, note_death

START_TIMEOUT_S = 300.0
"""Triton loads the models of a comparison one after another; some engines take a minute to start."""
ENGINE_BYTES = 1 << 30
"""Memory that a framework takes besides the model; PyTorch and TensorFlow come near."""
WEIGHT_COPIES = 3
"""A file's bytes in memory: as it was read, as the engine packs it, and room for what is computed."""


@dataclass(frozen=True)
class Participant:
    """A contender with the runs that it makes; their configuration has the model's name on the server."""

    contender: Contender
    config: LoadConfig

    @property
    def label(self) -> str:
        """The contender's name, unique in the comparison."""
        return self.contender.label

    @property
    def model(self) -> str:
        """The model's name on the server."""
        return self.config.model

    def lasting(self, duration_s: float) -> "Participant":
        """The same with runs of another length, of a closed loop or at one rate."""
        load = msgspec.structs.replace(self.config.request.load, duration_s=duration_s)
        return replace(self, config=self.config.changed(load=load))


ServerFactory = Callable[[Participant], AbstractContextManager[str]]
"""Participant -> a context in which its server answers at the URL."""


def running_servers(participants: Sequence[Participant]) -> ServerFactory:
    """Return servers that run already; every model is asked for first. Raises ServerError."""
    for participant in participants:
        config = participant.config
        control_of(config).require_model(config.model, config.workload, config.entry.serve_command())
    return lambda participant: contextlib.nullcontext(participant.config.address)


@contextlib.contextmanager
def shared_server(repository: Path, models: Sequence[str], protocol: str) -> Iterator[ServerFactory]:
    """One Triton with all models: those that wait for their turn cost memory and no time. Raises ServerError."""
    names = list(dict.fromkeys(models))
    with servers.open_server("auto", repository, names, start_timeout_s=START_TIMEOUT_S) as server:
        yield lambda _: contextlib.nullcontext(address_of(server, protocol))
        note_death(server)


@contextlib.contextmanager
def own_server(repository: Path, model: str, protocol: str) -> Iterator[str]:
    """A Triton with one model, and its URL. Raises ServerError."""
    with servers.open_server("auto", repository, [model], start_timeout_s=START_TIMEOUT_S) as server:
        yield address_of(server, protocol)


def server_each_turn(repository: Path, protocol: str) -> ServerFactory:
    """A Triton of its own for each turn."""
    return lambda participant: own_server(repository, participant.model, protocol)


def fit_together(folders: Sequence[Path]) -> bool:
    """Return True if all models fit into this machine's free memory at once, by a rough and generous estimate."""
    sizes = [sum(file.stat().st_size for file in (folder / "1").rglob("*") if file.is_file()) for folder in folders]
    return sum(WEIGHT_COPIES * size + ENGINE_BYTES for size in sizes) < limits.memory().available_bytes
