"""Idle cores that wake up at once: they are kept out of idle states while requests are sent, where it is asked for."""

import contextlib
import os
from types import TracebackType
from typing import Self

from loadgen.sut.target import Target
from servemark.documents.load import AUTO
from servemark.documents.request import ON
from servemark.errors import OptionError
from servemark.figures.value import Value
from servemark.machine.environment import virtual_machine
from servemark.machine.idle_states import hold_awake, refusal
from servemark.telemetry.energy.meter import UnavailableError
from servemark.telemetry.energy.sources import rapl_meter

_SAME_MACHINE = "the server is on this machine, or it is not known: it would answer sooner (--cpu-latency-qos on)"
_METERED = "cores that do not idle would use energy that is metered"
_BARE_METAL = "no virtual machine: cores in deep idle states leave power for the clocks of the busy ones"


class CpuLatency:
    """Keeps all cores of this machine out of idle states from entering to leaving it.

    `asked` is a value of --cpu-latency-qos. `auto` changes nothing that is measured: it holds only where the server is
    on another machine, in a virtual machine, where it is permitted and nothing meters the energy of the cores.
    `power_command` says that the user's command does.
    """

    def __init__(self, asked: str, *, power_command: bool) -> None:
        self._asked, self._power_command = asked, power_command
        self._held: int | None = None
        self._server_elsewhere = False
        self.figure = Value.unknown("nothing was sent")
        """Within which idle cores had to wake up (us)."""

    def require(self, target: Target) -> None:
        """Check that it can be had where it was asked for, and where the server is. Raises OptionError."""
        if self._asked == AUTO:
            with contextlib.suppress(LookupError):
                self._server_elsewhere = not target.local and not target.processes()
        if self._asked == ON and (why := refusal()):
            raise OptionError(f"--cpu-latency-qos on: {why}", fix="run as root, or leave out --cpu-latency-qos")

    def __enter__(self) -> Self:
        why = self._unwanted()
        if why is None:
            try:
                self._held = hold_awake()
            except OSError as error:
                why = f"{error.filename}: {error.strerror}"
        self.figure = Value.unknown(why) if why else Value(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held is not None:
            with contextlib.suppress(OSError):
                os.close(self._held)
            self._held = None

    def _unwanted(self) -> str | None:
        """Return the reason why the lock is not held; None if it is wanted."""
        if self._asked == ON:
            return None
        if self._asked != AUTO:
            return f"--cpu-latency-qos {self._asked}"
        if not self._server_elsewhere:
            return _SAME_MACHINE
        if virtual_machine() is None:
            return _BARE_METAL
        return _METERED if self._power_command or _has_rapl() else None


def _has_rapl() -> bool:
    with contextlib.suppress(UnavailableError):
        rapl_meter("cpu_package")
        return True
    return False
