"""servemark as its user starts it: a process of its own like every other load generator."""

import json
import sys
from pathlib import Path
from typing import ClassVar

from loadgen.peers import PEERS, Peer, PeerFigures, PeerLoad
from servemark.documents.request import PROCESS_CLOCK
from servemark.figures.registry import count_of, value_of

PERCENTILES = (50, 90, 95, 99)
SUBJECT, BY_PROCESS = "servemark", "process-clock"


class Servemark(Peer):
    """Closed and open loop. Its warm-up is left out, so that it reports of what the server logs."""

    name: ClassVar[str] = SUBJECT
    install: ClassVar[str] = ""

    @property
    def program(self) -> str | None:
        """Return this Python."""
        return sys.executable

    def _refusal(self, load: PeerLoad) -> str | None:  # noqa: ARG002 - the interface
        return None

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        command = [str(self.program), "-m", "servemark", "run", load.model, "--url", load.url, "--out", str(folder)]
        # Cores are as awake for it as for the others: a calibration sees to that.
        command += ["--warmup", "0", "--duration", f"{load.duration_s:g}", "--cpu-latency-qos", "off", "--json"]
        if load.rate is None:
            return [*command, "--concurrency", str(load.in_flight)]
        gaps = "poisson" if load.poisson else "constant"
        return [*command, "--request-rate", f"{load.rate:g}", "--request-distribution", gaps]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        [file] = folder.glob("*/result.json")
        result = json.loads(file.read_text())
        # The others report of answered requests alone.
        found = {each: value_of(result, f"answered_latency.p{each:g}") for each in PERCENTILES}
        known: dict[float, float] = {each: ms for each, ms in found.items() if ms is not None}
        rate = value_of(result, "throughput.requests") or 0.0
        return PeerFigures(rate, known, count_of(result, "errors.count"))


class ByProcess(Servemark):
    """servemark without the kernel's stamps: an answer came when the process read it, as with other load generators."""

    name: ClassVar[str] = BY_PROCESS

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        return [*super().command(load, folder), "--receive-clock", PROCESS_CLOCK]


METERS: dict[str, Peer] = {peer.name: peer for peer in (Servemark(), ByProcess(), *PEERS.values())}
"""All that are known, servemark first."""
OWN = (SUBJECT, BY_PROCESS)
"""Those that are always measured."""
