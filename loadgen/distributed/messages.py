"""Messages between master and workers during a run, over Locust's own connection.

| from | kind | meaning |
|---|---|---|
| worker | join | it asks with a `token` for its part, until it has it |
| master | prepare | to that token: it is worker `index` of `of` in `run`; the request, and the server's address |
| worker | ready, failed | the requests are made and connections open; or why not |
| master | ping | answered with `pong` at once, to estimate the worker's clock |
| master | begin | the schedule begins at `start_ns` of the worker's clock |
| master | measure | the warm-up was long enough: the measured interval begins at `start_ns` of the worker's clock |
| master | end | the interval of a closed loop ends `length_ns` after its start |
| worker | state | all that was recorded so far; `final` once every request has its outcome |
| master | stop | send nothing more, and say what was measured |
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.load.load_config import LoadConfig
from servemark import __version__
from servemark.repository.entry import Golden

MESSAGE = "servemark"
"""Locust's name for all of these messages."""
STATE_EVERY_S = 1.0
UNDECIDED_EVERY_S = 0.2
"""Interval of the reports while the master decides on the end of the warm-up or of a closed loop's interval."""

Message = Mapping[str, Any]
Send = Callable[[dict[str, Any]], None]


def fingerprint(config: LoadConfig, schedule: npt.NDArray[np.int64] | None, golden: Golden | None) -> dict[str, str]:
    """Digest the facts that must be equal in every process for the shares to form one load, by users' names."""
    parts = {"version of servemark": __version__}
    if golden:
        parts["golden outputs (another export, or another file)"] = _digest(repr(golden.digests).encode())
    if config.workload.served:
        tensors = config.workload.inputs, config.workload.outputs, config.workload.max_batch
        parts["model (its server says other tensors)"] = _digest(repr(tensors).encode())
    if schedule is not None:
        parts["schedule (another version of numpy, or another trace file)"] = _digest(schedule.tobytes())
    return parts


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
