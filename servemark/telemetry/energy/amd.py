"""AMD GPUs, by AMD's own library where it is installed.

Source: AMD SMI documentation, amdsmi_get_energy_count: an accumulator, and the µJ that one step of it stands for.
"""

import importlib
import importlib.util
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from servemark.telemetry.energy.meter import Meter, UnavailableError

VISIBLE = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def installed() -> bool:
    """Return True if AMD's library is installed."""
    return importlib.util.find_spec("amdsmi") is not None


def amd_meter(amdsmi: ModuleType | None = None, gpus: Sequence[int] | None = None) -> Meter:
    """Meter GPUs by their numbers in HIP, the visible ones where none are given. Raises UnavailableError."""
    try:
        amdsmi = amdsmi or importlib.import_module("amdsmi")
        amdsmi.amdsmi_init()
        boards = _visible(amdsmi.amdsmi_get_processor_handles())
    except UnavailableError:
        raise
    except Exception as error:
        raise UnavailableError(f"amdsmi: {error}") from error
    missing = [number for number in gpus or [] if number >= len(boards)]
    if missing or not boards:
        raise UnavailableError(
            f"amdsmi sees {len(boards)} of HIP's GPUs{f', not number {missing[0]}' if missing else ''}"
        )
    chosen = boards if gpus is None else [boards[number] for number in gpus]
    library = amdsmi

    def counts() -> list[tuple[int, float]]:
        try:
            found = [library.amdsmi_get_energy_count(board) for board in chosen]
            # Before ROCm 6.2 the accumulator was called power.
            return [(int(c.get("energy_accumulator", c.get("power"))), float(c["counter_resolution"])) for c in found]
        except Exception as error:
            raise UnavailableError(f"amdsmi: {error}") from error

    def read() -> tuple[float, ...]:
        return tuple(steps * step_uj / 1e6 for steps, step_uj in counts())

    ranges_j = [2**64 * step_uj / 1e6 for _, step_uj in counts()]
    return Meter("amdsmi", "gpu_board", read, ranges_j=ranges_j)


def _visible(boards: Sequence[Any]) -> list[Any]:
    """Those that the environment leaves. Raises UnavailableError where it names them otherwise than by numbers."""
    for name in VISIBLE:
        if (numbers := os.environ.get(name)) is not None:
            try:
                return [boards[int(number)] for number in numbers.split(",") if number.strip()]
            except (ValueError, IndexError) as error:
                raise UnavailableError(f"amdsmi: {name}={numbers} is not a list of its numbers") from error
    return list(boards)
