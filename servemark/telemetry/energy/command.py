"""A meter of the user's: a command that writes a line with a figure in watts now and then (`--power-command`)."""

import bisect
import contextlib
import itertools
import math
import os
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

from servemark import interrupts
from servemark.errors import OptionError
from servemark.machine.processes import end_group
from servemark.telemetry.energy.meter import REFRESHES, Boundary, Meter, UnavailableError
from servemark.telemetry.os_threads import start_thread

FIRST_LINE_S = 5.0
"""Maximum wait for its first line, before the run."""
STOP_S = 2.0
"""Maximum time for it to end."""
SILENT = 3.0
"""The command counts as lost after this number of its own intervals without a reading."""
MAX_LINE = 1 << 16
_FIX = "write it like --power-command 'read-meter --watts', with pipes like --power-command \"sh -c 'A | B'\""


class Lines:
    """The figures that came, each with its time, and how many lines were none."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.times_ns: list[int] = []
        self.watts: list[float] = []
        self.garbage = 0
        self.first_garbage = ""
        self.ended: str | None = None
        """Reason why no more readings will come, None while more may."""
        self._clock_ns = clock_ns
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Take what the command has written since."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            text = line.decode(errors="replace").strip()
            try:
                watts = float(text)
            except ValueError:
                watts = math.nan
            if math.isfinite(watts) and watts >= 0:
                # The time last: who counts times finds their figures.
                self.watts.append(watts)
                self.times_ns.append(self._clock_ns())
            elif text:
                self.garbage += 1
                self.first_garbage = self.first_garbage or text[:60]

    def read(self) -> tuple[float, ...]:
        """The newest figure. Raises UnavailableError where there is none, or will be no other."""
        if self.ended is not None:
            raise UnavailableError(self.ended)
        if not self.times_ns:
            raise UnavailableError(self.none_came())
        return (self.watts[len(self.times_ns) - 1],)

    def none_came(self) -> str:
        """Return the reason why there is no figure."""
        garbage = f": {self.garbage} lines are none, the first {self.first_garbage!r}" if self.garbage else ""
        return f"the power command wrote no figure{garbage}"

    def check(self, from_ns: int, until_ns: int) -> str | None:
        """Return the reason why these lines do not give a window's power: too few, or a long gap."""
        times = self.times_ns
        first, last = bisect.bisect_left(times, from_ns), bisect.bisect_right(times, until_ns)
        if last - first < REFRESHES:
            passed_s = (until_ns - from_ns) / 1e9
            enough = f"measure for {passed_s * REFRESHES / (last - first):.2g} s" if last > first else "measure longer"
            return (
                f"the power command wrote {last - first} figures within {passed_s:.3g} s, {REFRESHES} are needed: "
                f"{enough}, or have it write more often"
            )
        usual_ns = statistics.median(b - a for a, b in itertools.pairwise(times[first:last]))
        edges = [from_ns, *times[first:last], until_ns]
        longest_ns = max(b - a for a, b in itertools.pairwise(edges))
        if longest_ns > SILENT * usual_ns:
            return f"the power command wrote nothing for {longest_ns / 1e9:.3g} s, usually every {usual_ns / 1e9:.3g} s"
        return None


class PowerCommand:
    """A command that goes on until `close`, and the meter that its lines make.

    No shell reads it. It has a process group of its own, so that Ctrl-C reaches it through us; where we are killed, its
    next line finds no reader. Raises OptionError where it cannot be started.
    """

    def __init__(self, command: str, boundary: Boundary) -> None:
        self.lines = Lines()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the command
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                words_of(command), stdin=subprocess.DEVNULL, stdout=writing, stderr=self._said, start_new_session=True
            )
        except OSError as error:
            os.close(reading)
            raise OptionError(f"--power-command {command!r} cannot be started: {error.strerror}", fix=_FIX) from error
        finally:
            os.close(writing)
        self._reading = reading
        self.meter = Meter("power_command", boundary, self.lines.read, ranges_j=None, check=self.lines.check)
        start_thread(self._follow)

    def wait_for_first(self) -> str | None:
        """Wait for the first line; why there is none, None where it came. Raises KeyboardInterrupt."""
        deadline = time.monotonic() + FIRST_LINE_S
        while not self.lines.times_ns and self.lines.ended is None and time.monotonic() < deadline:
            interrupts.sleep(0.02)
        if self.lines.times_ns:
            return None
        return self.lines.ended or f"{self.lines.none_came()} within {FIRST_LINE_S:g} s"

    def close(self) -> None:
        """End the command, and whatever it has started, which may ignore SIGTERM where the command itself does not."""
        end_group(self._process, STOP_S)
        self._said.close()

    def _follow(self) -> None:
        """Read its lines until it ends, in a thread of the operating system."""
        with open(self._reading, "rb", buffering=0) as output:  # noqa: PTH123 - a descriptor
            while data := output.read(1 << 16):
                self.lines.take(data)
        self.lines.ended = f"the power command ended during the run{self._last_words()}"

    def _last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            self._said.seek(0)
            words = self._said.read(MAX_LINE).decode(errors="replace").strip()
            return f": {words.splitlines()[-1][:200]}" if words else ""
        return ""


def words_of(command: str) -> list[str]:
    """The program and its arguments. Raises OptionError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise OptionError(f"--power-command {command!r} is not a command: {error}", fix=_FIX) from error
    if not words:
        raise OptionError("--power-command is empty", fix=_FIX)
    return words
