"""What each engine answers before anything is measured: it warms the engine, and says how long rounds have to be."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from loadgen.load.load_config import LoadConfig
from servemark.comparison.hosting import Host, Place
from servemark.errors import ServerError
from servemark.max_rate.runs import PROBE_CONCURRENCY
from servemark.output import note
from servemark.results.directory import read_latency
from servemark.runs.locust_process import drive

WARM_S = 2.0
"""Each engine answers for so long before the first round, so that what it does once (allocate, compile) is over."""
WARM_TIMEOUT_S = 300
"""A model that compiles on its first request may take minutes for it."""
FEW = 4
"""With fewer answers for each connection the first, which may have taken minutes, hides how fast the others are."""
LOAD = ("num_users", "request_rate", "stages", "trace")


@dataclass(frozen=True)
class Warmed:
    """What a warm-up says about an engine."""

    rate: float
    """Requests/s in a closed loop, by its median latency."""
    overhead_s: float
    """What a run takes besides its own warm-up and its measured seconds."""
    server_s: float = 0.0
    """Where each turn has a server of its own: what starting, warming and ending it takes."""


def warmed(place: Place, host: Host, folder: Path, *, own_server: bool) -> Warmed:
    """Warm an engine. Raises ServerError where it answers nothing, or its server cannot be started."""
    start_s = time.monotonic()
    with host(place.model) as address:
        found = warm_up(place, address, folder)
    server_s = time.monotonic() - start_s if own_server else 0.0
    return Warmed(found.rate, found.overhead_s, server_s)


def warm_up(place: Place, address: str, folder: Path) -> Warmed:
    """Have the engine answer once or for WARM_S, whichever is longer; the result is thrown away. Raises ServerError."""
    note(f"warming {place.label}")
    connections = place.config.concurrency or PROBE_CONCURRENCY
    count, found = _answers(place, address, folder, connections)
    return found if count >= FEW * connections else _answers(place, address, folder, connections)[1]


def _answers(place: Place, address: str, folder: Path, connections: int) -> tuple[int, Warmed]:
    """How many requests were answered, and what they say."""
    directory = folder / "warm-up"
    directory.mkdir(exist_ok=True)
    flags = {name: value for name, value in place.flags.items() if name not in LOAD} | {
        "num_users": connections,
        "duration": WARM_S,
        "warmup": 0,
        "request_timeout": WARM_TIMEOUT_S,
        "slo": "",
        "seed": place.config.seed,
        "host": address,
    }
    start_s = time.monotonic()
    try:
        result = quietly(place.config, flags, directory)
        latency = read_latency(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    seconds = time.monotonic() - start_s
    if not latency.count:
        errors = result["metrics"]["errors"]
        first = next((texts[0] for texts in errors["messages"].values() if texts), "none in time")
        raise ServerError(f"{place.label} answered no request of its warm-up: {first}")
    rate = connections / (latency.percentile(50) / 1e3)
    return latency.count, Warmed(rate, seconds - result["scenario"]["measured_s"])


def quietly(config: LoadConfig, flags: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Drive a run whose own report is in its directory; what it says is shown where it fails."""
    with tempfile.TemporaryFile("w+") as said:
        try:
            return drive(config, flags, directory=directory, output=subprocess.DEVNULL, errors=said)
        except typer.Exit:
            said.seek(0)
            note(said.read().rstrip())
            raise
