"""Readings of processes: CPU time of another one, its tree, and the cores' counters."""

import contextlib
import http.client
import os
import subprocess
import sys
import time

import pytest

from servemark.telemetry.processes import COLUMNS, ProcessWatch, cores_ns
from tests.golden.server import GoldenServer
from tests.support.proxy import proxy_to


def test_cpu_time_of_another_process_is_that_which_it_used() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        watch = ProcessWatch([busy.pid], [])
        watch.find()
        begun = time.clock_gettime_ns((~busy.pid << 3) | 2)
        watch.read()
        while time.clock_gettime_ns((~busy.pid << 3) | 2) < begun + 50_000_000:
            time.sleep(0.005)
        watch.read()
        used = watch.columns()["server_cpu"]
        assert used[1] - used[0] >= 45_000_000
    finally:
        busy.kill()
        busy.wait()
    watch.read()
    columns = watch.columns()
    assert {*columns} == {*COLUMNS}
    # One that has ended keeps what it had.
    assert columns["server_cpu"][2] >= columns["server_cpu"][1]


def test_waits_for_a_core_are_those_of_each_side() -> None:
    core = next(iter(os.sched_getaffinity(0)))
    spin = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    both = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
    try:
        watch = ProcessWatch([], [both[0].pid])
        watch.find()
        # A thread that shares its core waits for half of the time, and the kernel counts a wait when it ends.
        watch.read()
        while not watch.columns()["client_waited"][-1]:
            time.sleep(0.005)
            watch.read()
        assert not watch.columns()["waited"].any()
    finally:
        for each in both:
            each.kill()
            each.wait()


def test_a_server_behind_a_proxy_is_watched() -> None:
    with GoldenServer() as server, proxy_to(server.port) as proxy:
        watch = ProcessWatch([proxy.pid], [])
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)) as connection:
            connection.request("GET", "/v2/health/ready")
            connection.getresponse().read()
            used = sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in (proxy.pid, server.pid))
            watch.find()
            watch.read()
    assert watch.columns()["server_cpu"][-1] >= used


def test_cores_are_busy_with_all_but_idleness_interrupts_and_other_machines() -> None:
    busy, stolen = cores_ns("cpu  100 10 20 1000 50 3 2 40 0 0\ncpu0 1 1 1 1 1 1 1 1\n")
    assert busy == pytest.approx(130 * 10_000_000)
    assert stolen == pytest.approx(40 * 10_000_000)
