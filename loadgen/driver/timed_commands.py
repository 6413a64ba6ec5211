"""Runs commands beside the load at their times: a reload, a lost replica, a neighbour. None outlives the run."""

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from servemark.documents.live import TimedCommand
from servemark.errors import OptionError
from servemark.machine.processes import end_group
from servemark.results.schema.details import StartedCommand

END_S = 2.0
"""Time for a command that still runs to end by itself."""
MOST_SAID = 500
WAIT = ["/bin/sh", "-c", 'read -r _ && exec "$@"', "sh"]
"""Waits for a line and becomes the command: to start a process takes the sending thread some milliseconds."""


class _Waiting:
    """A command that waits for its time."""

    def __init__(self, timed: TimedCommand) -> None:
        words = shlex.split(timed.command)
        if shutil.which(words[0]) is None:
            raise OptionError(f"--at: there is no program {words[0]!r}", fix="name one that is on PATH, or its path")
        self.timed = timed
        self.started_s: float | None = None
        """Second of the measured interval at which it was started, None before."""
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the command
        self._process = subprocess.Popen(
            [*WAIT, *words],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def start(self, elapsed_s: float) -> None:
        assert self._process.stdin is not None
        self.started_s = elapsed_s
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"\n")
            self._process.stdin.close()

    def finish(self) -> StartedCommand | None:
        """End it where it still runs; None where its time has not come."""
        assert self._process.stdin is not None
        code = self._process.poll()
        if code is None:
            end_group(self._process, END_S)
        self._process.stdin.close()
        self._output.seek(max(self._output.seek(0, os.SEEK_END) - MOST_SAID, 0))
        said = self._output.read().decode(errors="replace").strip()
        self._output.close()
        if self.started_s is None:
            return None
        return {"command": self.timed.command, "at_s": round(self.started_s, 6), "exit_code": code, "said": said}


class TimedCommands:
    """The commands of a run. Raises OptionError for a program that is not there."""

    def __init__(self, commands: Sequence[TimedCommand]) -> None:
        self.ran: list[StartedCommand] = []
        """Those that were started, once all are finished."""
        self._waiting: list[_Waiting] = []
        try:
            for command in commands:
                self._waiting.append(_Waiting(command))
        except BaseException:
            self.finish()
            raise

    def tick(self, elapsed_s: float) -> None:
        """Start what is due this long after the start of the measured interval."""
        for each in self._waiting:
            if each.started_s is None and elapsed_s >= each.timed.at_s:
                each.start(elapsed_s)

    def finish(self) -> None:
        """End what still runs."""
        self.ran += [ran for each in self._waiting if (ran := each.finish()) is not None]
        self._waiting.clear()
