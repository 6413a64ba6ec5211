"""Energy meters: joules over a window from NVML or amdsmi (GPUs), RAPL (CPU, DRAM) or a command, never from a guess.

    meter, reason = open_meter("cpu_package")
    if meter is not None:
        meter.start()
        ...
        reading = meter.stop()

A meter that is not there, or that cannot resolve the window, gives None and the reason, never 0. It sees this machine
only: a server elsewhere cannot be metered from here, unless by a command of the user's.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from servemark.telemetry.energy.command import PowerCommand
from servemark.telemetry.energy.meter import Boundary, EnergyReading, Meter, Source, UnavailableError
from servemark.telemetry.energy.sources import POWERCAP, amd_meter, installed, nvml_meter, rapl_meter

__all__ = [
    "BOUNDARY_OF_DEVICE",
    "Availability",
    "Boundary",
    "EnergyReading",
    "Meter",
    "PowerCommand",
    "discover",
    "open_meter",
    "open_meters",
]

BOUNDARY_OF_DEVICE: dict[str, Boundary] = {"cpu": "cpu_package", "cuda": "gpu_board"}


class Availability(NamedTuple):
    """One row of discover()."""

    source: Source
    boundary: Boundary
    reason: str | None
    """Reason why it cannot be read; None if it can."""


def _candidates(
    powercap: Path, nvml: ModuleType | None, gpus: Sequence[int] | None = None
) -> list[tuple[Source, Boundary, Callable[[], Meter]]]:
    """Every known meter, the better one of a boundary first."""
    amd: list[tuple[Source, Boundary, Callable[[], Meter]]] = []
    if installed():
        amd.append(("amdsmi", "gpu_board", lambda: amd_meter(gpus=gpus)))
    return [
        ("nvml_total_energy", "gpu_board", lambda: nvml_meter("nvml_total_energy", nvml, gpus)),
        ("nvml_power", "gpu_board", lambda: nvml_meter("nvml_power", nvml, gpus)),
        *amd,
        ("rapl", "cpu_package", lambda: rapl_meter("cpu_package", powercap)),
        ("rapl", "dram", lambda: rapl_meter("dram", powercap)),
    ]


def open_meter(
    boundary: Boundary = "cpu_package",
    *,
    gpus: Sequence[int] | None = None,
    powercap: Path = POWERCAP,
    nvml: ModuleType | None = None,
) -> tuple[Meter, None] | tuple[None, str]:
    """Open the best meter of a boundary, or say why there is none; of GPUs those with these numbers in CUDA, or all."""
    reasons = []
    for _, candidate, build in _candidates(powercap, nvml, gpus):
        if candidate != boundary:
            continue
        try:
            return build(), None
        except UnavailableError as error:
            reasons.append(str(error))
    return None, "; ".join(dict.fromkeys(reasons))


def open_meters(gpus: Sequence[int] | None = None) -> dict[Boundary, tuple[Meter, None] | tuple[None, str]]:
    """The best meter of every boundary, or why there is none."""
    boundaries = dict.fromkeys(boundary for _, boundary, _ in _candidates(POWERCAP, None))
    return {boundary: open_meter(boundary, gpus=gpus) for boundary in boundaries}


def discover(*, powercap: Path = POWERCAP, nvml: ModuleType | None = None) -> list[Availability]:
    """Try every meter this module knows, for `servemark doctor`."""
    rows = []
    for source, boundary, build in _candidates(powercap, nvml):
        try:
            build()
        except UnavailableError as error:
            rows.append(Availability(source, boundary, str(error)))
        else:
            rows.append(Availability(source, boundary, None))
    return rows
