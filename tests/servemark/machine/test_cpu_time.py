"""Whose CPU time it was: made-up /proc trees of known figures, and the real one with a busy process beside it."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servemark.machine import cpu_time
from servemark.machine.cpu_time import CannotTell, CpuUse, Watch

HZ = os.sysconf("SC_CLK_TCK")
ELSEWHERE = ["cpu2 0 0 0 0 0 0 0 0 0 0", "cpu3 0 0 0 0 0 0 0 0 0 0"]


class Machine:
    """A /proc of four cores, two of which are ours, and processes: (parent, seconds used[, by ended children])."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.now_s = root, 0.0
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        monkeypatch.setattr(cpu_time, "cores", lambda _: SimpleNamespace(quota=self.quota))
        self.quota: float | None = None
        self.kernel: set[int] = set()
        """Numbers of the kernel's own threads."""
        self.show({})

    def show(
        self, processes: dict[int, tuple[float, ...]], *, idle: float = 0.0, steal: float = 0.0, irq: float = 0.0
    ) -> None:
        proc = self.root / "proc"
        for pid, (parent, used, *of_children) in processes.items():
            (proc / str(pid)).mkdir(parents=True, exist_ok=True)
            times = [used, 0, *of_children, 0, 0]
            flags = str(0x00200040 if pid in self.kernel else 0x00400000)
            used_ticks = [str(round(time * HZ)) for time in times[:4]]
            fields = ["S", str(parent), *["0"] * 4, flags, *["0"] * 4, *used_ticks, *["0"] * 30]
            (proc / str(pid) / "stat").write_text(f"{pid} (a) (b {pid}) {' '.join(fields)}")
        proc.mkdir(exist_ok=True)
        half = [0, 0, 0, round(idle / 2 * HZ), 0, 0, round(irq / 2 * HZ), round(steal / 2 * HZ), 0, 0]
        lines = [f"cpu{core} {' '.join(map(str, half))}" for core in (0, 1)]
        (proc / "stat").write_text("\n".join(["cpu 1 1 1 1 1 1 1 1 1 1", *lines, *ELSEWHERE, "ctxt 5"]))

    def passed(self, processes: dict[int, tuple[float, ...]], *, idle: float, ended: int | None = None) -> CpuUse:
        """Ten seconds go by, in which a process may end; the use of them."""
        watch = self.watch()
        self.now_s = 10.0
        if ended is not None:
            shutil.rmtree(self.root / "proc" / str(ended))
        self.show(processes, idle=idle)
        return watch.use()

    def watch(self) -> Watch:
        groups = {"server": [20], "generator": [10]}
        return Watch(groups, self.root, lambda: self.now_s)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def ten_seconds(machine: Machine, **passed: float) -> CpuUse:
    """The generator (10, with its child 11) uses 1 s, its server (20 below 11, 21 below that) 6 s, 30 uses 2 s."""
    machine.show({10: (1, 5.0), 11: (10, 1.0), 20: (11, 3.0), 21: (20, 0.0), 30: (1, 7.0), 31: (1, 0.0)})
    watch = machine.watch()
    machine.now_s = 10.0
    machine.show({10: (1, 5.5), 11: (10, 1.5), 20: (11, 5.0), 21: (20, 4.0), 30: (1, 9.0), 31: (1, 0.1)}, **passed)
    return watch.use()


def test_what_is_not_idle_and_not_ours_is_other_work(machine: Machine) -> None:
    use = ten_seconds(machine, idle=10.0)
    assert use.groups == pytest.approx({"generator": 0.1, "server": 0.6})
    assert use.other == pytest.approx(0.3)
    assert use.stolen == 0
    assert use.other_cpu_share == pytest.approx(0.15)
    assert use.largest == "a) (b 30 (pid 30) 0.2"


def test_a_tree_that_is_found_at_the_end_counts_from_the_beginning(machine: Machine) -> None:
    machine.show({10: (1, 0.0), 20: (1, 0.0), 30: (1, 7.0), 31: (30, 1.0)})
    watch = machine.watch()
    machine.now_s = 10.0
    machine.show({20: (1, 1.0), 30: (1, 9.0), 31: (30, 2.0), 32: (30, 0.5)}, idle=15.5)
    before, last = watch.use(), watch.snapshot()
    watch.add("server", [20, 30])
    after = watch.use(last)
    assert (before.groups["server"], before.other) == pytest.approx((0.1, 0.35))
    assert (after.groups["server"], after.other) == pytest.approx((0.45, 0.0))
    assert after.members["server"] == "a) (b 30 (pid 30) 0.2, a) (b 20 (pid 20) 0.1, a) (b 31 (pid 31) 0.1"
    assert after.largest is None


def test_what_has_lost_its_parent_stays_in_its_group(machine: Machine) -> None:
    machine.show({10: (1, 0.0), 11: (10, 1.0), 12: (11, 2.0), 30: (1, 0.0)})
    use = machine.passed({10: (1, 1.0, 1.0), 12: (1, 5.0), 13: (12, 1.0)}, idle=15.0, ended=11)
    assert use.groups["generator"] == pytest.approx(0.5)
    assert use.other == pytest.approx(0.0)
    assert use.largest is None


def test_steal_counts_and_interrupts_do_not(machine: Machine) -> None:
    use = ten_seconds(machine, idle=10.0, steal=1.0, irq=2.0)
    assert use.other == pytest.approx(0)
    assert use.stolen == pytest.approx(0.1)
    assert use.other_cpu_share == pytest.approx(0.05)


def test_a_quota_loses_only_what_was_not_left(machine: Machine) -> None:
    machine.quota = 1.5
    assert ten_seconds(machine, idle=10.0).other_cpu_share == 0
    assert CpuUse(2, 1.5, {}, 0.8, 0.0, None).other_cpu_share == pytest.approx(0.3 / 1.5)
    assert CpuUse(64, 2.0, {}, 62.5, 0.0, None).other_cpu_share == pytest.approx(0.25)
    assert CpuUse(2, 2.0, {}, 2.5, 0.0, None).other_cpu_share == 1


def test_a_process_that_came_or_went(machine: Machine) -> None:
    machine.show({10: (1, 5.0), 12: (10, 3.0), 30: (1, 7.0)})
    # 12 used 1 s more, and 10 waited for it
    use = machine.passed({10: (1, 9.0), 13: (10, 2.0), 30: (1, 7.0)}, idle=17.0, ended=12)
    assert use.groups["generator"] == pytest.approx(0.3)
    assert use.other == pytest.approx(0)
    assert use.largest is None


def test_a_process_that_shows_more_than_all_cores_were_busy_is_not_named(machine: Machine) -> None:
    machine.show({10: (1, 0.0), 30: (1, 1.0), 31: (1, 2.0)})
    use = machine.passed({30: (1, 10.5), 31: (1, 3.0)}, idle=18.8)
    assert use.other == pytest.approx(0.12)
    assert use.largest == "a) (b 31 (pid 31) 0.1"


def test_three_are_named_or_many_and_never_a_thread_of_the_kernel(machine: Machine) -> None:
    machine.kernel = {35}
    machine.show({10: (1, 0.0), **dict.fromkeys(range(30, 36), (1, 0.0))})
    watch = machine.watch()
    machine.now_s = 10.0
    machine.show({30: (1, 0.5), 31: (1, 2.0), 32: (1, 1.0), 33: (1, 0.4), 34: (1, 0.1), 35: (2, 3.0)}, idle=14.0)
    assert watch.use().largest == "a) (b 31 (pid 31) 0.2, a) (b 32 (pid 32) 0.1, a) (b 30 (pid 30) 0.05"
    machine.show({}, idle=10.0)
    assert str(watch.use().largest).startswith("many, the largest a) (b 31 (pid 31) 0.2, ")


def test_a_shell_is_not_blamed_for_what_its_child_did_long_ago(machine: Machine) -> None:
    machine.show({30: (1, 1.0), 31: (30, 500.0), 32: (1, 2.0), 10: (1, 0.0)})
    use = machine.passed({30: (1, 1.0, 500.5), 32: (1, 3.0)}, idle=18.5, ended=31)
    assert use.other == pytest.approx(0.15)
    assert use.largest == "a) (b 32 (pid 32) 0.1"


@pytest.mark.parametrize(
    ("stat", "words"),
    [("cpu0 0 0 0 0 0 0 0 0\n", "1 of 2 cores"), ("cpu0 0\ncpu1 0\n", "cannot be read"), (None, "No such file")],
)
def test_what_cannot_be_read_has_its_reason(machine: Machine, stat: str | None, words: str) -> None:
    file = machine.root / "proc/stat"
    if stat is None:
        file.unlink()
    else:
        file.write_text(stat)
    with pytest.raises(CannotTell, match=words):
        machine.watch()


@pytest.mark.parametrize("idle", [-1.0, 500.0])
def test_idle_times_that_cannot_be(machine: Machine, idle: float) -> None:
    with pytest.raises(CannotTell, match="idle"):
        ten_seconds(machine, idle=idle)


def test_a_process_that_is_gone() -> None:
    with pytest.raises(CannotTell, match="process 99999999"):
        Watch({"server": [99_999_999]})


def test_real_processes_are_told_apart() -> None:
    """The figures of a busy child depend on the machine, but not whose they are."""

    def busy() -> Any:
        return subprocess.Popen([sys.executable, "-c", "while True: pass"])

    ours, other = busy(), busy()
    try:
        watch = Watch({"ours": [ours.pid]})
        before = time.monotonic()
        while time.monotonic() < before + 1.0:
            time.sleep(0.05)
        use = watch.use()
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()
    assert 0 < use.groups["ours"] <= 1.2
    assert use.other > 0
    assert use.other + use.groups["ours"] <= use.watched + 0.1
