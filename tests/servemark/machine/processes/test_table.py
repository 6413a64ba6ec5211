"""Processes as /proc shows them, and their trees: made-up tables, and the real one."""

import os
import subprocess

import psutil

from servemark.machine.processes.table import Process, Table, children, processes, same, trees

MADE_UP: Table = {
    pid: Process("a", parent, start=pid, own_s=0.0, with_ended_s=0.0)
    for pid, parent in ((10, 1), (11, 10), (12, 10), (20, 11), (30, 1))
}


def test_this_process_is_shown_as_psutil_shows_it() -> None:
    process = psutil.Process()
    found = processes()[os.getpid()]
    assert (found.name, found.parent) == (process.name()[:15], os.getppid())
    assert 0 < found.own_s <= found.with_ended_s
    assert found.own_s <= sum(process.cpu_times()[:2])


def test_a_process_below_two_roots_belongs_to_the_first_tree() -> None:
    assert trees(MADE_UP, [[11], [10], [30, 99]]) == [{11, 20}, {10, 12}, {30}]
    assert children(MADE_UP) == {1: [10, 30], 10: [11, 12], 11: [20]}


def test_a_number_that_was_given_anew_is_another_process() -> None:
    anew = {**MADE_UP, 20: MADE_UP[20]._replace(start=21)}
    assert [pid for pid in (*MADE_UP, 99) if same(MADE_UP, anew, pid)] == [10, 11, 12, 30]


def test_a_real_child_is_of_the_tree() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:  # noqa: S607
        (found,) = trees(processes(), [[os.getpid()]])
        child.kill()
    assert {os.getpid(), child.pid} <= found
