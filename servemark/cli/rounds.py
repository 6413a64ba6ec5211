"""Interleaved rounds: A B C, C B A, ..., each turn a real run against one server for all or one for each."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import typer

import servers
from loadgen.options import LoadConfig
from loadgen.served import control_of
from servemark.cli.contenders import Contender, able
from servemark.cli.drive import address_of, drive
from servemark.compare import Turn, order
from servemark.errors import ServerError
from servemark.output import note
from servemark.results import HISTOGRAM_FILE

WARM_S = 2.0
"""Each engine answers for so long before the first round, so that what it does once (allocate, compile) is over."""
WARM_TIMEOUT_S = 300
"""A model that compiles on its first request may take minutes for it."""
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


def given(places: Sequence[Place]) -> Host:
    """A server that runs already; every model is asked for first. Raises ServerError."""
    for place in places:
        config = place.config
        command = place.contender.serve_command(config.workload)
        control_of(config).require_model(config.model, config.workload, command)
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
    return sum(WEIGHT_COPIES * size + ENGINE_BYTES for size in sizes) < psutil.virtual_memory().available


@dataclass
class Rounds:
    """The rounds of one comparison; `turns` grows, and `keep` is called with each round that is whole."""

    places: Sequence[Place]
    seed: int
    folder: Path
    host: Host
    keep: Callable[[Sequence[Turn]], None]
    warm_each_turn: bool
    turns: list[Turn] = field(default_factory=list)

    def run(self, count: int) -> None:
        """Measure so many rounds. Raises ServerError, typer.Exit where a run has no result, KeyboardInterrupt."""
        if not self.warm_each_turn:
            for place in self.places:
                with self.host(place.model) as address:
                    self._warm(place, address)
        by_label = {place.contender.label: place for place in self.places}
        for number in range(1, count + 1):
            for label in order(list(by_label), number):
                self._turn(number, count, by_label[label])
            self.keep(self.turns)

    def _turn(self, number: int, count: int, place: Place) -> None:
        label = place.contender.label
        directory = self.folder / f"{len(self.turns) + 1:02}-{place.contender.slug}"
        with self.host(place.model) as address:
            if self.warm_each_turn:
                self._warm(place, address)
            directory.mkdir()
            flags = {**place.flags, "host": address, "seed": self.seed + number - 1}
            try:
                _quietly(place.config, flags, directory)
            finally:
                # Also one that was cut short: it is listed, and takes no part in the figures.
                if (directory / HISTOGRAM_FILE).exists():
                    self.turns.append(Turn.read(number, label, directory))
        note(f"round {number}/{count}  {_line(self.turns[-1])}")

    def _warm(self, place: Place, address: str) -> None:
        """Have the engine answer once or for WARM_S, whichever is longer; the result is thrown away."""
        note(f"warming {place.contender.label}")
        directory = self.folder / "warm-up"
        directory.mkdir(exist_ok=True)
        short = {"duration": WARM_S, "warmup": 0, "request_timeout": WARM_TIMEOUT_S, "slo": "", "seed": self.seed}
        try:
            result = _quietly(place.config, {**place.flags, **short, "host": address}, directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        errors = result["metrics"]["errors"]
        if not result["metrics"]["latency_ms"]["count"]:
            first = next((texts[0] for texts in errors["messages"].values() if texts), "none in time")
            raise ServerError(f"{place.contender.label} answered no request of its warm-up: {first}")


def _quietly(config: LoadConfig, flags: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Drive a run whose own report is in its directory; what it says is shown where it fails."""
    with tempfile.TemporaryFile("w+") as said:
        try:
            return drive(config, flags, directory=directory, output=subprocess.DEVNULL, errors=said)
        except typer.Exit:
            said.seek(0)
            note(said.read().rstrip())
            raise


def _line(turn: Turn) -> str:
    found = turn.to_dict()
    p50 = "-" if found["p50_ms"] is None else f"{found['p50_ms']:,.4g} ms"
    verdict = "VALID" if found["valid"] else f"INVALID ({', '.join(found['failed'])})"
    return f"{turn.label}: p50 {p50}, {found['inferences_per_s']:,.4g} inferences/s, {verdict}"
