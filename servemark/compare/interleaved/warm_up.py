"""Warm-up of each engine before anything is measured, which also shows the length that rounds need."""

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from loadgen.load.load_config import LoadConfig
from servemark.compare.interleaved.hosting import Hosted, Participant, ServerFactory
from servemark.output import note
from servemark.results.directory import read_latency
from servemark.runs.locust_process import drive
from servemark.search.max_rate.runs import PROBE_CONCURRENCY, probe

WARM_S = 2.0
"""Duration for which each engine answers before the first round, after a warm-up that ends by itself. Then the work
that it does once (allocate, compile) is over."""
MOST_LOOKS = 6
"""Maximum number of warm-ups of an engine that is not steady yet, because it goes on compiling."""
FASTER = 1.1
"""Factor by which the next warm-up of an engine that goes on compiling answers more. One that answers no more than
before is not steady by its nature, which no warm-up changes."""
WARM_TIMEOUT_S = 300
"""A model that compiles on its first request may take minutes for it."""
MIN_ANSWERS = 4
"""Minimum answers per connection: the first, which may have taken minutes, must not hide the speed of the others."""


@dataclass(frozen=True)
class EngineWarmUp:
    """Figures of an engine's warm-up."""

    rate: float
    """Requests/s in a closed loop, by its median latency."""
    overhead_s: float
    """Time of a run besides its own warm-up and its measured seconds."""
    server_s: float = 0.0
    """Time to start, warm and end a server, if each turn has its own."""


def warm_up(participant: Participant, server: ServerFactory, folder: Path, *, own_server: bool) -> EngineWarmUp:
    """Warm an engine. Raises ServerError if it answers nothing, or its server cannot be started."""
    start_s = time.monotonic()
    with server(participant) as hosted:
        found = answer(participant, hosted, folder)
    server_s = time.monotonic() - start_s if own_server else 0.0
    return replace(found, server_s=server_s)


def answer(participant: Participant, hosted: Hosted, folder: Path) -> EngineWarmUp:
    """Let the engine answer until it is steady, for WARM_S at least; discard the result. Raises ServerError."""
    note(f"warming {participant.label}")
    connections = participant.config.concurrency or PROBE_CONCURRENCY
    config = hosted.asked(participant.config).changed(request_timeout_s=WARM_TIMEOUT_S)
    count, steady, found = _answer_once(config, folder, connections)
    if count < MIN_ANSWERS * connections:
        _, steady, found = _answer_once(config, folder, connections)
    looks, before = 1, 0.0
    while not steady and looks < MOST_LOOKS and found.rate > FASTER * before:
        looks, before = looks + 1, found.rate
        _, steady, found = _answer_once(config, folder, connections)
    if not steady:
        note(f"{participant.label} was not steady: give a longer --warmup")
    return found


def _answer_once(config: LoadConfig, folder: Path, connections: int) -> tuple[int, bool, EngineWarmUp]:
    """Return the number of answers, whether the latency was steady (True if unknown), and the figures."""
    directory = folder / "warm-up"
    directory.mkdir(exist_ok=True)
    start_s = time.monotonic()
    try:
        result = probe(drive, replace(config, result_dir=directory), connections, WARM_S)
        latency = read_latency(directory, result).answered()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    seconds = time.monotonic() - start_s
    rate = connections / (latency.percentile(50) / 1e3)
    scenario = result["scenario"]
    overhead_s = seconds - (scenario["measured_s"] or 0.0) - (scenario["warmup_s"] or 0.0)
    steady = scenario.get("warmup", {}).get("steady")
    return latency.count, steady is not False, EngineWarmUp(rate, overhead_s)
