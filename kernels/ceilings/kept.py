"""Parts of ceilings: kept in `ceilings.json` beside the results for the same machine, else measured in a process.

The file may be damaged, or of somebody else: what is not as it should be there counts as not measured.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from kernels.ceilings.parts import Part, size_words
from kernels.libraries import TORCH, version
from kernels.measurement.case import Method
from kernels.measurement.device import Device
from kernels.measurement.sensors import taken, watching
from servemark import files
from servemark.campaign import Progress
from servemark.errors import ResultError
from servemark.machine.cpu_time import QUIET_SHARE
from servemark.machine.environment import Environment
from servemark.machine.own_process import ERRORS, OwnProcess, words
from servemark.output import note
from servemark.results.directory import write_atomically
from servemark.results.kinds import conformed
from servemark.stats.unknown import explained

FILE = "ceilings.json"
RULES = 2
"""Raised when the parts are measured, or kept, in another way."""
MAX_MACHINES = 16
BOOT = Path("/proc/sys/kernel/random/boot_id")
Machine = dict[str, Any]


class KeptPart(TypedDict):
    """A part with when it was measured, and what others took of the cores meanwhile (null: not known)."""

    value: float
    of: str
    size_bytes: int
    measured: str
    other_cpu_share: float | None


class _Machine(TypedDict):
    """A machine with its parts."""

    machine: Machine
    parts: dict[str, KeptPart]


class _File(TypedDict):
    """The whole file."""

    machines: list[_Machine]


def machine_of(device: Device, environment: Environment, boot: Path = BOOT) -> Machine:
    """Return the facts for which a ceiling holds: machine since its start, device, threads, library, settings."""
    return {
        "rules": RULES,
        "hostname": environment["hostname"],
        "started": boot.read_text().strip() if boot.is_file() else None,
        "cpu": environment["cpu"],
        "device": device.name,
        "board": device.board,
        "threads": device.cores,
        "cache_bytes": device.cache_bytes,
        "library": f"{TORCH} {version(TORCH)}",
        "variables": environment["variables"],
    }


class Kept:
    """The parts of one machine in the file. What cannot be read or written never ends a run."""

    def __init__(
        self,
        file: Path,
        machine: Machine,
        *,
        anew: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`anew`: take none of the file."""
        self._file, self._machine, self._now = file, machine, now
        self._writable = True
        self._parts = {} if anew else next((each["parts"] for each in self._read() if each["machine"] == machine), {})

    def get(self, name: str) -> KeptPart | None:
        """A part by its name."""
        return self._parts.get(name)

    def keep(self, name: str, measured: Part, other_cpu_share: float | None) -> KeptPart:
        """Keep a part that has just been measured; one that was measured beside other work only for this run."""
        part = self._parts[name] = _kept(measured, self._now(), other_cpu_share)
        if self._writable and not beside_others(part):
            parts = {name: part for name, part in self._parts.items() if not beside_others(part)}
            others = [each for each in self._read(quietly=True) if each["machine"] != self._machine]
            ours: _Machine = {"machine": self._machine, "parts": parts}
            self._write([*others, ours][-MAX_MACHINES:])
        return part

    def _write(self, machines: list[_Machine]) -> None:
        try:
            write_atomically(self._file, json.dumps({"machines": machines}, indent=1, allow_nan=False) + "\n")
        except ResultError as error:
            self._writable = False
            note(f"ceilings are not kept for the next run: {error.what}")

    def _read(self, *, quietly: bool = False) -> list[_Machine]:
        """Read every machine of the file with its parts; nothing, and a note, if it is not such a file."""
        try:
            kept = conformed(msgspec.json.decode(files.text(self._file, files.TEXT_BYTES)), _File)
            defect = _defect(kept)
        except FileNotFoundError:
            return []
        except OSError as error:
            defect = error.strerror
        except (ValueError, RecursionError) as error:
            defect = str(error) or type(error).__name__
        if defect is None:
            return kept["machines"]
        if not quietly:
            note(f"{self._file} is not used, ceilings are measured anew: {defect}")
        return []


def beside_others(part: KeptPart) -> bool:
    """Return True if other work took cores while a part was measured, so that the ceiling is too low."""
    return (part["other_cpu_share"] or 0.0) > QUIET_SHARE


@explained
def _kept(part: Part, now: datetime, other_cpu_share: float | None) -> KeptPart:
    return {
        "value": part.value,
        "of": part.of,
        "size_bytes": part.size_bytes,
        "measured": now.isoformat(timespec="seconds"),
        "other_cpu_share": other_cpu_share,
    }


def _defect(kept: _File) -> str | None:
    """Find values that `keep` does not write."""
    for each in kept["machines"]:
        for name, part in each["parts"].items():
            datetime.fromisoformat(part["measured"])  # ValueError where it is none
            if not part["value"] > 0 or part["size_bytes"] < 0:
                return f"{name} has a rate of {part['value']}, a working set of {part['size_bytes']} bytes"
    return None


PART_LIMIT_S = 120.0
"""Longest time of a part (s)."""


class Source:
    """Gets the parts of one precision, and remembers what was said of them. Nothing that is left out ends a run."""

    def __init__(self, process: OwnProcess, method: Method, kept: Kept, precision: str, progress: Progress) -> None:
        self.method, self.precision = method, precision
        self._process, self._kept, self._progress = process, kept, progress
        self.parts: list[KeptPart] = []
        self.reused = False
        """True if an earlier run kept any part."""
        self.left_out: list[str] = []
        """Parts that were not measured, each with its reason."""

    def get(
        self, name: str, unit: str, cost_s: float, measure: Callable[..., Part], *arguments: object
    ) -> KeptPart | None:
        """A part; None where it cannot be measured. Raises KeyboardInterrupt."""
        if found := self._kept.get(name):
            self.reused = True
            self.parts.append(found)
            return found
        watch = watching()
        try:
            part = self._process.run(measure, *arguments, self.method, timeout_s=PART_LIMIT_S)
        except ERRORS as reason:
            self._progress.done(cost_s)
            self.leave_out(f"{name}: {words(reason)}")
            return None
        found = self._kept.keep(name, part, taken(watch))
        self.parts.append(found)
        of = f"a working set of {size_words(part.size_bytes)}" if part.size_bytes else part.of
        share = found["other_cpu_share"] or 0.0
        beside = f"; too low, not kept: other work took {share:.0%} of the cores" if beside_others(found) else ""
        self._say(f"{part.value:.3g} {unit}, {of}{beside}{self._progress.done(cost_s)}")
        return found

    def leave_out(self, reason: str | None) -> None:
        """Say what is not measured, if anything."""
        if reason:
            self.left_out.append(reason)
            self._say(f"left out {reason}")

    def _say(self, text: str) -> None:
        note(f"ceilings of {self.precision}: {text}")
