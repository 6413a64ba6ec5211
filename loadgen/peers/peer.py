"""The interface of another load generator, and the load that it is told."""

import os
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from loadgen.transport.server_url import protocol_of
from servemark.errors import ServemarkError

END_WITHIN_S = 120.0
"""Beyond a load's duration: what starting, connecting and reporting may take."""
REQUEST_TIMEOUT_S = 30


class PeerError(ServemarkError):
    """Another generator that could not be run, or that reported nothing."""


@dataclass(frozen=True)
class PeerLoad:
    """A load that every generator can be told: one request, again and again."""

    url: str
    """Like http://127.0.0.1:8000 or grpc://127.0.0.1:8001."""
    model: str
    request: bytes
    """As it travels: a whole HTTP/1.1 request, or an enclosed gRPC message. perf_analyzer makes its own."""
    in_flight: int
    """Of an open loop the most."""
    duration_s: float
    rate: float | None = None
    """Requests/s of an open loop; None: a closed loop."""
    poisson: bool = True
    """Arrivals of an open loop, else at constant distances."""

    @property
    def protocol(self) -> str:
        """Return the URL's, http or grpc."""
        return protocol_of(self.url)

    @property
    def endpoint(self) -> str:
        """Return the URL's HOST:PORT."""
        return self.url.partition("://")[2]

    def parts(self) -> tuple[str, dict[str, str], bytes]:
        """Return path, header fields and body of an HTTP/1.1 request; fields that a client adds itself are left out."""
        head, _, body = self.request.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        for own in ("Host", "Content-Length"):
            fields.pop(own, None)
        return first.split(" ")[1], fields, body

    def written(self, folder: Path) -> tuple[str, dict[str, str], Path]:
        """Write the body into a folder: path and header fields as of `parts`, and its file."""
        path, fields, body = self.parts()
        file = folder / "body"
        file.write_bytes(body)
        return path, fields, file


@dataclass(frozen=True)
class PeerFigures:
    """A run by a generator's own report. None is what it does not say."""

    requests_per_s: float
    percentiles_ms: Mapping[float, float]
    """Of the latency as it defines it, by percentile."""
    failed: int | None = None
    late_share: float | None = None
    """Requests of an open loop that it calls late itself."""


class Peer(ABC):
    """A program that makes load. It is taken from the environment variable of its name in capitals, else from PATH."""

    name: ClassVar[str]
    install: ClassVar[str]
    """The command that installs it, or words."""
    speaks: ClassVar[str] = ""
    """All that it speaks; empty: gRPC too."""
    closed_only: ClassVar[str] = ""
    """The reason why it makes no open loop; empty: it makes one."""
    paced: ClassVar[bool] = False
    """True: its rate only slows a closed loop down, at constant distances, which still waits for answers."""

    @property
    def program(self) -> str | None:
        """Return where it is; None where it is not."""
        return shutil.which(os.environ.get(self.name.upper()) or self.name)

    def refusal(self, load: PeerLoad) -> str | None:
        """Return the reason why it cannot make a load; None if it can."""
        if self.program is None:
            return f"not on PATH, nor where {self.name.upper()}= says: {self.install}"
        if self.speaks and load.protocol != "http":
            return f"it speaks {self.speaks} only"
        if load.rate is None:
            return None
        return "it has no Poisson arrivals" if self.paced and load.poisson else self.closed_only or None

    def measure(self, load: PeerLoad, run: Callable[[Sequence[str]], str] | None = None) -> PeerFigures:
        """Run it once. `run` runs a command and returns what it prints. Raises PeerError."""
        if why := self.refusal(load):
            raise PeerError(f"{self.name}: {why}")
        with tempfile.TemporaryDirectory() as folder:
            command = self.command(load, Path(folder))
            output = run(command) if run else _run(command, load.duration_s + END_WITHIN_S)
            try:
                return self.read(output, Path(folder))
            except (OSError, LookupError, TypeError, ValueError) as error:
                raise PeerError(f"{self.name} reported nothing that can be read:\n{output.strip()}") from error

    @abstractmethod
    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        """Return the command line; files that it names are written into the folder."""

    @abstractmethod
    def read(self, output: str, folder: Path) -> PeerFigures:
        """Read its report: what it printed, and what it wrote. Raises ValueError, TypeError, LookupError, OSError."""


def _run(command: Sequence[str], timeout_s: float) -> str:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"{command[0]} did not end within {timeout_s:g} s") from error
    return done.stdout
