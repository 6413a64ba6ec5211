"""Triton's trace of each request: its settings, and the files that it writes. Another server's trace is a file like it.

Source: Triton's user guide, "Trace" (JSON trace output), and its protocol extension "Trace". Its stamps are of the
monotonic clock, which the processes of a machine share.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.kserve.control import Control
from loadgen.sut.channel import number_of
from servemark.errors import ServerError

AT_ONCE = 5000
"""Requests in a file; Triton keeps them in memory until then."""
ON = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "-1", "log_frequency": str(AT_ONCE)}
OFF = {"trace_level": ["OFF"]}
STEPS = ("QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END")
"""Steps of a request in the model, in the order of the columns that are read."""


def flags(file: Path) -> list[str]:
    """Triton's flags to trace every request of its life into files that begin with this name."""
    settings = [f"triton,file={file}", f"triton,log-frequency={AT_ONCE}", "rate=1", "level=TIMESTAMPS", "count=-1"]
    return [f"--trace-config={setting}" for setting in ["mode=triton", *settings]]


@dataclass(frozen=True)
class Traced:
    """Stamps of requests (ns), a row each in the order of their numbers; 0 where a step has none."""

    numbers: npt.NDArray[np.int64]
    stamps: npt.NDArray[np.int64]


@contextlib.contextmanager
def tracing(control: Control, model: str) -> Iterator[Path]:
    """Have a running Triton trace a model's every request, and yield the file that it names.

    Raises ServerError where it traces nothing, or into no file.
    """
    before = control.trace_settings(model)
    file = str(before.get("trace_file") or "")
    if not file:
        raise ServerError(
            "the server has no file for its trace",
            fix="start it with --trace-config triton,file=/tmp/trace.json, or let servemark start one",
        )
    control.trace_settings(model, ON)
    try:
        yield Path(file)
    finally:
        with contextlib.suppress(ServerError):
            # Changed settings make it write what it holds.
            control.trace_settings(model, {key: before[key] for key in ON if key in before} or OFF)


def read(file: Path) -> Traced:
    """Read what Triton wrote under this name, of requests with our ids. Raises ServerError where it is not a trace."""
    requests: dict[int, int] = {}
    stamps: dict[int, list[int]] = {}
    for part in sorted(file.parent.glob(f"{file.name}*")):
        for entry in _entries(part):
            if (number := number_of(str(entry.get("request_id", "")))) is not None and "parent_id" not in entry:
                requests[entry["id"]] = number
            for stamp in entry.get("timestamps", ()):
                if stamp["name"] in STEPS:
                    stamps.setdefault(entry["id"], [0] * len(STEPS))[STEPS.index(stamp["name"])] = stamp["ns"]
    found = sorted((number, *stamps[key]) for key, number in requests.items() if key in stamps)
    rows = np.array(found, dtype=np.int64).reshape(-1, 1 + len(STEPS))
    return Traced(rows[:, 0], rows[:, 1:])


def _entries(file: Path) -> list[dict[str, Any]]:
    """Raises ServerError."""
    try:
        found = json.loads(file.read_text() or "[]")
    except (OSError, ValueError) as error:
        raise ServerError(f"the server's trace {file} cannot be read: {error}") from error
    return [entry for entry in found if isinstance(entry, dict) and "id" in entry] if isinstance(found, list) else []
