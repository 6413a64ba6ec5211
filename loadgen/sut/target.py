"""The system under test, as a measurement knows it (MLPerf LoadGen's SUT): a server, or an engine in this process."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from loadgen.sut.channel import Channel, Payload
from loadgen.sut.kernel_clock import KernelClock
from servemark.figures.evidence import ConnectionTimes, Volume
from servemark.repository.entry import Golden
from servemark.results.schema.run import Resolved
from servemark.workload import Arrays


@dataclass(frozen=True)
class Placement:
    """Device and engine of a model, as the target reports them; None if it does not."""

    engine: str | None
    device: str | None
    provider: str | None
    model_config: dict[str, Any] | None = None
    """The configuration that serves the model, as Triton gives it, without the model's name."""

    @property
    def gpus(self) -> list[int]:
        """The GPUs that it runs on, by their numbers in CUDA."""
        return [int(number) for number in re.findall(r"cuda:(\d+)", self.device or "")]


class Target(ABC):
    """A system under test. `prepare` is called first, `close` last."""

    protocol: str
    """As the result names it: http, grpc, in-process."""
    config: Resolved
    """Values that the request leaves open, as they were resolved: `url` is None where it has none."""
    shared_memory = "none"
    """Kind of shared memory that holds the tensors: none, system, cuda."""
    decoupled = False
    """It may answer a request any number of times. Known once it is prepared."""
    volume: Volume | None = None
    """Counts compressed bytes; None where nothing travels."""
    connection_times: ConnectionTimes | None = None
    """Records connections that carry one request each; None where they carry more."""
    clock: KernelClock | None = None
    """Tells when answers came; None where none come over a network."""
    no_statistics: str
    """The reason why there are no statistics, where there are none."""

    @property
    @abstractmethod
    def local(self) -> bool:
        """Return True if the target computes on this machine, so that its energy meters can be read."""

    @abstractmethod
    def processes(self) -> list[int]:
        """Its processes on this machine, without their children; none where it runs elsewhere, or in this process.

        Raises LookupError with the reason where they cannot be known.
        """

    @abstractmethod
    def prepare(self) -> Placement:
        """Check that it answers and takes the workload's tensors; say where it runs. Raises ServemarkError."""

    @abstractmethod
    def payloads(self, golden: Golden | None) -> Iterator[Payload]:
        """Make the endless stream of requests ahead, the golden ones among them. Raises InputDataError."""

    @abstractmethod
    def encoder(self) -> Callable[[Arrays], Any]:
        """Return a function that makes a request of a batch. Raises OptionError if its memory is too small."""

    @abstractmethod
    def connect(self, server: int = 0) -> Channel:
        """Make a closed channel to it, of several servers to the one with this number. The driver opens it."""

    def statistics(self) -> dict[str, Any] | None:
        """Triton's counters of the model since it was loaded, None where there are none. May wait on the network."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give everything back."""
