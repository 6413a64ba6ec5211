"""A real run of the generator in a session of its own: how it ended, what it held, and what it left behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from servemark.paths import CHECKOUT
from tests.faults.raw_http import Front
from tests.faults.registry import Seen
from tests.support.documents import validated

LOCUST = [sys.executable, "-m", "locust", "-f", "benchmarks/rig/identity_locustfile.py", "--headless"]
LOCUST += ["--only-summary", "--model-name", "golden"]
SERVEMARK = [sys.executable, "-m", "servemark", "run", "ranking_tiny"]
LOAD = ["--concurrency", "4"]
SHORT_S, LONG_S = 1.5, 6.0
SHORT = ["--duration", f"{SHORT_S:g}", "--warmup", "0.2", "--request-timeout", "10"]
ENDS_WITHIN_S = 180.0
SHARED_MEMORY = Path("/dev/shm")
PAUSE_S, GONE_WITHIN_S = 0.05, 10.0
KIB = 1 << 10
ENOUGH = 40
"""Requests after which a run counts as under way."""


def workload_of(command: Sequence[str]) -> str:
    """The workload that a command drives; Locust's is described by its server alone."""
    return "ranking_tiny" if command is SERVEMARK else ""


@dataclass
class Run:
    """A generator that is running."""

    process: "subprocess.Popen[bytes]"
    output: Path
    pids: set[int] = field(default_factory=set)
    peak_kib: int = 0
    """The most that one of its processes has held."""

    def signal(self, number: signal.Signals) -> None:
        """As a terminal sends it: to all that runs in it."""
        os.killpg(self.process.pid, number)

    def children(self) -> list[psutil.Process]:
        """Its processes, itself not."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def watch(self) -> None:
        """Note processes and memory until it has ended."""
        while self.process.poll() is None:
            with contextlib.suppress(psutil.Error):
                top = psutil.Process(self.process.pid)
                for each in (top, *top.children(recursive=True)):
                    self.pids.add(each.pid)
                    self.peak_kib = max(self.peak_kib, _high_water_kib(each.pid))
            time.sleep(PAUSE_S)


class Rig:
    """Runs generators, in a folder of its own; `load` is what they send where a fault asks for no other."""

    def __init__(self, folder: Path, load: Sequence[str] = LOAD) -> None:
        self.folder, self._load = folder, load
        self._count = 0
        self._usual: dict[tuple[str, float], float] = {}

    def run(
        self,
        url: str,
        *flags: str,
        command: Sequence[str] = LOCUST,
        received: Callable[[], int] | None = None,
        loaded: Callable[[], bool] | None = None,
        during: Callable[[Run], None] | None = None,
        environment: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        shell: str = "",
        out: Path | None = None,
    ) -> Seen:
        """One run to its end; `during` is called when it is `loaded`.

        `before` comes before the command, and `shell` is what a shell has after it.
        """
        folder = self.new_folder()
        out = out or folder / "out"
        (folder / "tmp").mkdir()
        line = [*command, "--url", url, "--out", str(out), "--model-repository", str(folder), *SHORT, *flags]
        line = [*before, *line]
        line += [] if {"--request-rate", "--concurrency"} & {*flags} else self._load
        if shell:
            line = ["bash", "-c", f'"$@" {shell}', "bash", *line]
        start = time.monotonic()
        output = folder / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                line,
                cwd=CHECKOUT,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(folder / "tmp"), **(environment or {})},
            )
        run = Run(process, output)
        watcher = threading.Thread(target=run.watch)
        watcher.start()
        troubles = []
        try:
            if during and loaded:
                while not loaded() and process.poll() is None:
                    time.sleep(PAUSE_S)
                during(run)
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            troubles.append(f"went on after {ENDS_WITHIN_S:g} s")
        wall_s = time.monotonic() - start
        left = _left(run, folder / "tmp", out)
        process.wait()
        watcher.join()
        growth_mib = run.peak_kib / KIB - self._usual_mib(command, line)
        text = output.read_text(errors="replace")
        seen = Seen(
            process.returncode, wall_s, growth_mib, text, None, left, received() if received else None, troubles
        )
        _read(seen, out)
        return seen

    def answered(
        self,
        *flags: str,
        command: Sequence[str] = LOCUST,
        documents: Mapping[str, bytes] | None = None,
        **how: Any,
    ) -> Seen:
        """One run against a server that answers right and counts; `documents` are of `Front`, and `how` is of `run`."""
        with Front(workload=workload_of(command), documents=documents) as front:
            known: dict[str, Any] = {"received": front.received, "loaded": front.loaded}
            return self.run(front.url, *flags, command=command, **known | how)

    def new_folder(self) -> Path:
        """An empty one."""
        self._count += 1
        folder = self.folder / str(self._count)
        folder.mkdir()
        return folder

    def _usual_mib(self, command: Sequence[str], line: Sequence[str]) -> float:
        """The most that such a run holds without a fault; it is run where nobody has asked yet.

        A run of several seconds has windows, and imports what judges their trend.
        """
        program, length = command[2], SHORT_S
        if any(float(line[at + 1]) > SHORT_S for at, flag in enumerate(line) if flag == "--duration"):
            length = LONG_S
        if (program, length) not in self._usual:
            self._usual[program, length] = 0.0
            seen = self.answered("--duration", f"{length:g}", command=command, received=None)
            if not seen.good or seen.left:
                raise SystemExit(f"a run without a fault failed ({seen.words()} {seen.left}):\n{seen.output}")
            self._usual[program, length] = seen.growth_mib
        return self._usual[program, length]


def _read(seen: Seen, out: Path) -> None:
    """The result, which must be the only one and as its schema says."""
    found = sorted(out.glob("*/result.json"))
    if len(found) > 1:
        seen.troubles.append(f"{len(found)} results")
    if found:
        try:
            seen.result = validated(json.loads(found[0].read_text()))
        except Exception as error:
            seen.troubles.append(f"result.json cannot be read: {str(error)[:200]}")


def _left(run: Run, temporary: Path, out: Path) -> list[str]:
    """Processes, shared memory and files that are there after the end and should not be."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while (alive := [pid for pid in run.pids if _alive(pid)]) and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    regions = [
        path.name
        for path in SHARED_MEMORY.glob("servemark_*")
        if run.pids & {*map(int, re.findall("[0-9]+", path.name))}
    ]
    files = [path.name for path in temporary.iterdir()] + [path.name for path in out.glob("*/.*")]
    found: list[tuple[str, list[Any]]] = [("processes", alive), ("shared memory", regions), ("files", files)]
    return [f"{len(names)} {what} left: {names}" for what, names in found if names]


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _high_water_kib(pid: int) -> int:
    """The most resident memory that a process has had."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s*([0-9]+) kB", status)
    return int(found[1]) if found else 0
