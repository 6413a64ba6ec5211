"""Processes as /proc shows them, and their trees, those of a run's command and the one above among them."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from servemark import interrupts
from servemark.machine.processes import (
    Process,
    Table,
    children,
    end_group,
    generator_family,
    generator_roots,
    processes,
    same,
    trees,
)

MADE_UP: Table = {
    pid: Process("a", parent, start=pid, own_s=0.0, with_ended_s=0.0)
    for pid, parent in ((10, 1), (11, 10), (12, 10), (20, 11), (30, 1))
}
GONE, HERE = 99_999_999, os.getpid()


def test_this_process_is_shown_as_psutil_shows_it() -> None:
    process = psutil.Process()
    found = processes()[os.getpid()]
    assert (found.name, found.parent) == (process.name()[:15], os.getppid())
    assert 0 < found.own_s <= found.with_ended_s
    assert round(found.own_s, 2) <= round(sum(process.cpu_times()[:2]), 2)  # its parts are of 10 ms each


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


def test_a_run_is_its_command_s_and_that_of_the_one_above() -> None:
    """The process that sends has forgotten its owner's variable: what it starts must not end with its own owner."""
    code = (
        "from servemark import interrupts; interrupts.end_with_owner()\n"
        "from servemark.machine.processes import generator_roots; print(*generator_roots())"
    )
    owned = {**os.environ, interrupts.OWNER: str(HERE), interrupts.WATCHER: str(HERE)}
    done = subprocess.run([sys.executable, "-c", code], env=owned, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(HERE)] * 2


@pytest.mark.parametrize(
    ("owner", "watcher"),
    [(None, None), (GONE, None), (HERE, None), (HERE, GONE)],
    ids=["neither", "an owner that is gone", "this one as owner", "a watcher that is gone"],
)
def test_without_them_it_is_this_process(
    owner: int | None, watcher: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "owner", lambda: owner)
    monkeypatch.setenv(interrupts.WATCHER, str(watcher))
    assert generator_roots() == [HERE]


def test_its_family_is_what_it_descends_from_and_its_children() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:  # noqa: S607
        found = generator_family(processes())
        child.kill()
    assert {os.getpid(), os.getppid(), child.pid} <= found


@pytest.mark.parametrize("refusal", [None, PermissionError, ProcessLookupError])
def test_a_group_is_ended_unless_it_is_another_user_s(
    refusal: type[OSError] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise refusal or AssertionError

    with subprocess.Popen(["/bin/sleep", "600"], start_new_session=True) as process, monkeypatch.context() as patch:
        if refusal:
            patch.setattr(os, "killpg", refuse)
        end_group(process, 30)
        ended = process.poll()
        process.kill()
    assert ended == (None if refusal else -signal.SIGTERM)
