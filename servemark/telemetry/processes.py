"""Processes of server and generator in short intervals: CPU time, waits for a core, and what else the cores did.

proc(5): /proc/PID/task/TID/schedstat has a thread's wait for a core in ns; clock_getcpuclockid(3): the CPU time of
another process in ns. /proc/stat counts the cores in ticks of 10 ms.
"""

import contextlib
import os
import re
import time
from array import array
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.machine.addresses import in_path
from servemark.machine.processes import processes, trees
from servemark.telemetry.os_threads import PeriodicThread

PERIOD_S = 0.005
MAX_THREADS = 8
"""Threads of a tree whose waits are read: those that used the most CPU time lately."""
RELIST_S = 1.0
MAX_SHARE = 0.05
"""Of one core, for readings that are short enough."""
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_USED, _STEAL = slice(0, 3), 7
"""Fields of /proc/stat. Time of interrupts is left out: the network's belongs to the traffic of the run itself."""
COLUMNS = ("at", "server_cpu", "waited", "client_waited", "others", "busy", "stolen", "stopped")


class ProcessWatch:
    """Reads the server's processes, those of the load generator, and the cores, until it is stopped.

    `server` and `generator` are whole process trees, by their roots. What stands behind a server's proxy belongs to it.
    """

    def __init__(self, server: Iterable[int], generator: Iterable[int]) -> None:
        self._roots = {*server}, {*generator}
        self._server: list[int] = []
        self._generator: list[int] = []
        self._server_waits, self._generator_waits = _Waits(), _Waits()
        self._stopped = 0
        self._cpu: dict[int, int] = {}
        self._kept = array("q")
        self._prompt = False
        self._beats: list[PeriodicThread] = []

    def start(self) -> None:
        """Begin to read. Processes are listed in another thread, since that takes as long as many readings."""
        self.find()
        self._beats = [PeriodicThread(self.find, RELIST_S, MAX_SHARE), PeriodicThread(self._beat, PERIOD_S, MAX_SHARE)]

    def stop(self) -> None:
        """Read no more."""
        for beat in self._beats:
            beat.stop()

    def _beat(self) -> None:
        if not self._prompt:
            self._prompt = True
            # On cores that others use, readings would come late when they matter most. 0 is this thread.
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        self.read()

    def read(self) -> None:
        """Read everything once."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            busy, stolen = cores_ns(Path("/proc/stat").read_text())
            at = time.monotonic_ns()
            server = self._used(self._server)
            others = busy - server - self._used(self._generator)
            waited, client_waited = self._server_waits.read(), self._generator_waits.read()
            self._stopped += _is_stopped(self._server)
            self._kept.extend((at, server, waited, client_waited, others, busy, stolen, self._stopped))

    def columns(self) -> dict[str, npt.NDArray[np.int64]]:
        """Return what was read, by the names of COLUMNS: counters in ns, `stopped` in readings, a value each."""
        held = np.array(self._kept, dtype=np.int64).reshape(-1, len(COLUMNS))
        return {name: np.maximum.accumulate(held[:, place]) for place, name in enumerate(COLUMNS)}

    def _used(self, processes: Iterable[int]) -> int:
        """CPU time of processes (ns); one that has ended keeps what it had."""
        for pid in processes:
            with contextlib.suppress(OSError):
                self._cpu[pid] = time.clock_gettime_ns((~pid << 3) | 2)  # CPUCLOCK_SCHED of a process
        return sum(self._cpu.get(pid, 0) for pid in processes)

    def find(self) -> None:
        """Find the processes of both trees, those behind a proxy too, and their busiest threads."""
        with contextlib.suppress(LookupError):  # one forwards to a container, whose processes are not known
            self._roots[0].update(in_path(self._roots[0], {os.getpid(), *self._roots[1]}))
        server, generator = trees(processes(), self._roots)
        # One that has ended stays: a sum that falls would be taken for other work.
        self._server = list(dict.fromkeys([*self._server, *server]))
        self._generator = list(dict.fromkeys([*self._generator, *generator]))
        self._server_waits.follow(server)
        self._generator_waits.follow(generator)


class _Waits:
    """Waits for a core of the busiest threads of some processes."""

    def __init__(self) -> None:
        self._threads: dict[Path, int] = {}
        """File of each watched thread -> its wait when it was last read (ns)."""
        self._waited = 0

    def read(self) -> int:
        """Add the longest wait of a thread since the last reading; return the sum (ns)."""
        longest = 0
        for file, before in self._threads.items():
            with contextlib.suppress(OSError, ValueError, IndexError):
                waited = int(file.read_bytes().split()[1])
                longest = max(longest, waited - before)
                self._threads[file] = waited
        self._waited += longest
        return self._waited

    def follow(self, processes: Iterable[int]) -> None:
        """Watch the threads that have used the most CPU time."""
        used: list[tuple[int, Path, int]] = []
        for pid in processes:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    with contextlib.suppress(OSError, ValueError, IndexError):
                        file = task / "schedstat"
                        cpu, waited = map(int, file.read_bytes().split()[:2])
                        used.append((cpu, file, waited))
        busiest = sorted(used, key=lambda each: -each[0])[:MAX_THREADS]
        self._threads = {file: self._threads.get(file, waited) for _, file, waited in busiest}


def _is_stopped(processes: Iterable[int]) -> bool:
    """Return True if a signal or a debugger has stopped one of them."""
    for pid in processes:
        with contextlib.suppress(OSError, IndexError):
            if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in {b"T", b"t"}:
                return True
    return False


def memory_bytes(root: int) -> int | None:
    """Return the memory of what descends from a process (PSS). None: it is not known.

    A page that several processes share counts once (proc(5), smaps_rollup).
    """
    total = 0
    for pid in trees(processes(), [[root]])[0] - {root}:
        with contextlib.suppress(OSError):
            found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
            total += int(found[1]) * 1024 if found else 0
    return total or None


def cores_ns(stat: str) -> tuple[int, int]:
    """Return the busy and the stolen time of all cores by /proc/stat (ns)."""
    fields = [int(field) for field in stat.partition("\n")[0].split()[1:]]
    return sum(fields[_USED]) * _TICK_NS, fields[_STEAL] * _TICK_NS
