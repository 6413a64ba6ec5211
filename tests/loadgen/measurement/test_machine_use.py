"""Whose cores a run used: its own tree, the server's, and why it is not known where it is not."""

import contextlib
import errno
import http.client
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from loadgen.measurement.machine_use import GENERATOR, SERVER, MachineUse
from loadgen.sut.target import Target
from servemark import interrupts
from tests.golden.server import GoldenServer
from tests.support.proxy import proxy_to


class Served:
    """A target whose server's processes a test chooses."""

    def __init__(self, *pids: int, unknown: str | None = None) -> None:
        self.pids, self.unknown = pids, unknown

    def processes(self) -> list[int]:
        if self.unknown:
            raise LookupError(self.unknown)
        return [*self.pids]


def measured(target: Served, workers: Callable[[], Iterable[int]] = tuple) -> MachineUse:
    use = MachineUse(cast(Target, target), workers)
    use.begin()
    use.wait()
    sum(number**2 for number in range(500_000))
    use.finish()
    use.wait()
    return use


def test_this_process_is_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "owner", lambda: None)
    use = measured(Served()).use
    assert use is not None
    assert use.groups[GENERATOR] > 0 == use.groups[SERVER]


def test_the_command_s_whole_tree_is_the_generator_but_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        monkeypatch.setattr(interrupts, "owner", os.getppid)
        use: Any = measured(Served(busy.pid)).use
    finally:
        busy.kill()
        busy.wait()
    assert use.groups[GENERATOR] > 0
    assert use.groups[SERVER] > 0


def test_the_server_behind_a_proxy_is_the_server_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy connects to it when the first request comes; what it used before the interval is not counted."""
    monkeypatch.setattr(interrupts, "owner", lambda: None)
    with GoldenServer() as server, proxy_to(server.port) as proxy:
        use = MachineUse(cast(Target, Served(proxy.pid)), tuple)
        use.begin()
        use.wait()
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
        with contextlib.closing(connection):
            for _ in range(20):
                connection.request("GET", "/v2/health/ready")
                connection.getresponse().read()
            use.finish()
            use.wait()
    assert use.use is not None, use.reason
    assert {f"(pid {pid})" for pid in (proxy.pid, server.pid)} == {*re.findall(r"\(pid \d+\)", use.use.members[SERVER])}


def without_descriptors() -> Iterable[int]:
    raise OSError(errno.EMFILE, "Too many open files", "/proc/stat")


def elsewhere() -> Iterable[int]:
    raise LookupError("worker 1 runs on another machine")


@pytest.mark.parametrize(
    ("target", "workers", "reason"),
    [
        (Served(unknown="this is a container"), tuple, "this is a container"),
        (Served(99_999_999), tuple, "process 99999999: No such process"),
        (Served(), without_descriptors, "[Errno 24] Too many open files: '/proc/stat'"),
        (Served(), elsewhere, "worker 1 runs on another machine"),
    ],
)
def test_why_it_is_not_known(target: Served, workers: Callable[[], Iterable[int]], reason: str) -> None:
    found = measured(target, workers)
    assert (found.use, found.reason) == (None, reason)


def test_before_it_begins() -> None:
    assert "before its measured interval" in MachineUse(cast(Target, Served()), tuple).reason


def test_readings_of_an_interval_that_did_not_begin_are_forgotten() -> None:
    use = measured(Served())
    use.discard()
    assert use.use is None
    assert "before its measured interval began" in use.reason
