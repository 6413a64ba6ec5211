"""Energy meters: joules over a window from NVML or amdsmi (GPUs), RAPL (CPU, DRAM) or a command, never from a guess.

    meter, reason = open_meter("cpu_package")
    if meter is not None:
        meter.start()
        ...
        reading = meter.stop()

A meter that is not there, or that cannot resolve the window, gives None and the reason, never 0. It sees this machine
only: a server elsewhere cannot be metered from here, unless by a command of the user's.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from servemark.telemetry.energy.meter import Boundary, Meter, Source, UnavailableError
from servemark.telemetry.energy.sources import POWERCAP, amd_meter, installed, nvml_meter, rapl_meter

BOUNDARY_OF_DEVICE: dict[str, Boundary] = {"cpu": "cpu_package", "cuda": "gpu_board"}
BOUNDARIES: tuple[Boundary, ...] = ("gpu_board", "cpu_package", "dram")


class Candidate(NamedTuple):
    """A meter that may be here."""

    source: Source
    boundary: Boundary
    meter: Meter | None
    reason: str | None
    """Reason why it cannot be read; None if it can."""


def discover(
    boundary: Boundary | None = None,
    *,
    gpus: Sequence[int] | None = None,
    powercap: Path = POWERCAP,
    nvml: ModuleType | None = None,
) -> Iterator[Candidate]:
    """Try every known meter, or those of one boundary, the better one of a boundary first."""
    known: list[tuple[Source, Boundary, Callable[[], Meter]]] = [
        ("nvml_total_energy", "gpu_board", lambda: nvml_meter("nvml_total_energy", nvml, gpus)),
        ("nvml_power", "gpu_board", lambda: nvml_meter("nvml_power", nvml, gpus)),
        ("amdsmi", "gpu_board", lambda: amd_meter(gpus=gpus)),
        ("rapl", "cpu_package", lambda: rapl_meter("cpu_package", powercap)),
        ("rapl", "dram", lambda: rapl_meter("dram", powercap)),
    ]
    for source, of, build in known:
        if boundary in {None, of} and (source != "amdsmi" or installed()):
            try:
                found = Candidate(source, of, build(), None)
            except UnavailableError as error:
                found = Candidate(source, of, None, str(error))
            yield found


def open_meter(
    boundary: Boundary, *, gpus: Sequence[int] | None = None, powercap: Path = POWERCAP, nvml: ModuleType | None = None
) -> tuple[Meter, None] | tuple[None, str]:
    """Open the best meter of a boundary, or say why there is none; of GPUs those with these numbers in CUDA, or all."""
    reasons = []
    for candidate in discover(boundary, gpus=gpus, powercap=powercap, nvml=nvml):
        if candidate.meter is not None:
            return candidate.meter, None
        reasons.append(str(candidate.reason))
    return None, "; ".join(dict.fromkeys(reasons))
