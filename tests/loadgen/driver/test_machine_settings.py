"""Settings of the machine: the sending thread's priority, and when cores are kept out of idle states."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Semaphore
from typing import cast

import psutil
import pytest

from loadgen.driver import machine_settings as module
from loadgen.driver.machine_settings import MOST_SHARE, WATCHED_S, CpuLatency, SendersPriority
from loadgen.sut.target import Target
from servemark.errors import OptionError
from servemark.figures.value import Value
from servemark.machine import scheduling
from servemark.machine.scheduling import Attributes, Priority
from servemark.telemetry import os_threads
from servemark.telemetry.os_threads import start_thread
from tests.support.locust_run import until

PERMISSION = "Operation not permitted"


class Kernel:
    """A kernel that refuses some priorities, and a thread that uses as much of a core as a test says."""

    def __init__(self, *refused: Priority, policy: int = os.SCHED_OTHER, nice: int = 0) -> None:
        self.refused = refused
        self.before = Attributes(ctypes.sizeof(Attributes), policy, 0, nice, 0)
        self.now = Priority.NORMAL
        self.others: dict[int, Priority] = {}
        self.wall_s = self.used_s = 0.0

    def schedule(self, priority: Priority, before: Attributes, thread: int = 0) -> None:
        assert before is self.before
        if priority in self.refused:
            raise PermissionError(1, PERMISSION)
        if thread:
            self.others[thread] = priority
        else:
            self.now = priority

    def refusal(self, priority: Priority) -> str | None:
        return PERMISSION if priority in self.refused else None

    def asked(self, priority: str = "auto", *, open_loop: bool = True) -> SendersPriority:
        return SendersPriority(priority, open_loop=open_loop, clocks=(lambda: self.wall_s, lambda: self.used_s))

    def work(self, seconds: float, share: float) -> None:
        self.wall_s += seconds
        self.used_s += share * seconds


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kernel]:
    def make(*refused: Priority, **started: int) -> Kernel:
        made = Kernel(*refused, **started)
        monkeypatch.setattr(scheduling, "schedule", made.schedule)
        monkeypatch.setattr(scheduling, "refusal", made.refusal)
        monkeypatch.setattr(Attributes, "now", lambda: made.before)
        return made

    return make


@pytest.mark.parametrize(
    ("refused", "got", "note"),
    [
        ((), Priority.REALTIME, None),
        ((Priority.REALTIME,), Priority.SLICE, f"realtime: {PERMISSION}"),
        ((Priority.REALTIME, Priority.SLICE), Priority.NORMAL, f"realtime: {PERMISSION}; slice: {PERMISSION}"),
        ((*Priority,), Priority.NORMAL, "; ".join(f"{each.value}: {PERMISSION}" for each in Priority)),
    ],
)
def test_an_open_loop_takes_the_best_that_is_permitted(
    kernel: Callable[..., Kernel], refused: tuple[Priority, ...], got: Priority, note: str | None
) -> None:
    system = kernel(*refused)
    with system.asked() as held:
        assert (held.granted.priority, held.granted.note, system.now) == (got, note, got)
    assert system.now is Priority.NORMAL


def test_a_meters_thread_has_the_senders_priority_as_long_as_the_sender(kernel: Callable[..., Kernel]) -> None:
    """It holds the interpreter's lock: were it without a core meanwhile, the sending thread would wait."""
    system, begun, end = kernel(), Semaphore(0), Event()

    def run() -> None:
        begun.release()
        end.wait(60)

    def start() -> None:
        start_thread(run)
        assert begun.acquire(timeout=60)

    start()
    with system.asked():
        start()
        assert system.others == dict.fromkeys(os_threads.running, Priority.REALTIME)
        assert len(system.others) == 2
    assert system.others == dict.fromkeys(os_threads.running, Priority.NORMAL)
    end.set()
    until(lambda: not os_threads.running, "end of the thread")


def test_a_closed_loop_stays_as_it_is(kernel: Callable[..., Kernel]) -> None:
    system = kernel()
    with system.asked(open_loop=False) as held:
        assert system.now is held.granted.priority is Priority.NORMAL
        assert "closed loop" in (held.granted.note or "")


@pytest.mark.parametrize(
    ("started", "got", "words"),
    [
        ({"nice": 15}, Priority.NORMAL, "nice 15"),
        ({"policy": os.SCHED_BATCH}, Priority.NORMAL, "SCHED_BATCH"),
        ({"policy": os.SCHED_FIFO}, Priority.REALTIME, "SCHED_FIFO"),
    ],
)
def test_what_nice_or_chrt_chose_is_left(
    kernel: Callable[..., Kernel], started: dict[str, int], got: Priority, words: str
) -> None:
    system = kernel(**started)
    with system.asked() as held:
        system.work(2 * WATCHED_S, 1.0)
        held.watch()
        assert (held.granted.priority, system.now) == (got, Priority.NORMAL)
        assert held.granted.note == f"left as it was started: {words}"


@pytest.mark.parametrize("name", Priority)
def test_one_asked_for_by_name_is_had_or_refused(kernel: Callable[..., Kernel], name: Priority) -> None:
    held = kernel(nice=15).asked(name.value, open_loop=False)
    held.require()
    with held:
        assert held.granted.priority is name
    with pytest.raises(OptionError, match=f"--sender-priority {name.value}: {PERMISSION}"):
        kernel(name).asked(name.value).require()


def test_real_time_is_given_up_by_a_generator_that_would_starve_the_server(kernel: Callable[..., Kernel]) -> None:
    system = kernel()
    with system.asked() as held:
        for _ in range(5):
            system.work(WATCHED_S, MOST_SHARE - 0.01)
            held.watch()
        system.work(WATCHED_S / 2, 1.0)  # catching up after a stall
        held.watch()
        system.work(WATCHED_S / 2, 0.0)
        held.watch()
        assert (held.granted.priority, system.now) == (Priority.REALTIME, Priority.REALTIME)
        system.work(WATCHED_S, 0.7)
        held.watch()
        assert (held.granted.priority, system.now) == (Priority.SLICE, Priority.SLICE)
        assert "70% of a core" in (held.granted.note or "")
        system.work(WATCHED_S, 0.1)
        held.watch()
        assert system.now is Priority.SLICE


HELD = Value(0)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A kernel's device that takes what is written; nothing here has RAPL."""
    path, hold = tmp_path / "cpu_dma_latency", scheduling.hold_awake
    path.touch()
    monkeypatch.setattr(scheduling, "hold_awake", lambda *_: hold(path))
    monkeypatch.setattr(module, "_has_rapl", lambda: False)
    monkeypatch.setattr(module, "virtual_machine", lambda: "a vendor")
    return path


class Server:
    """A target that is on another machine, here, or nobody knows where."""

    def __init__(self, place: str) -> None:
        self.local, self._place = place == "in this process", place

    def processes(self) -> list[int]:
        if self._place == "a container":
            raise LookupError(self._place)
        return [7] if self._place == "this machine" else []


def asked(value: str = "auto", server: str = "elsewhere", *, power_command: bool = False) -> CpuLatency:
    latency = CpuLatency(value, power_command=power_command)
    latency.require(cast(Target, Server(server)))
    return latency


def is_held(device: Path) -> bool:
    return any(file.path == str(device) for file in psutil.Process().open_files())


def test_cores_are_kept_awake_while_requests_are_sent(device: Path) -> None:
    with asked() as latency:
        assert is_held(device)
        assert latency.figure == HELD
    assert not is_held(device)
    assert latency.figure == HELD


@pytest.mark.parametrize("server", ["this machine", "in this process", "a container"])
def test_what_is_measured_is_not_changed_unless_asked(device: Path, server: str) -> None:
    with asked("auto", server) as latency:
        assert not is_held(device)
        assert "the server is on this machine, or it is not known" in str(latency.figure.reason)
    with asked("on", server):
        assert is_held(device)


@pytest.mark.parametrize(
    ("value", "power_command", "detected", "why"),
    [
        ("auto", True, {}, "metered"),
        ("off", False, {}, "--cpu-latency-qos off"),
        ("auto", False, {"_has_rapl": True}, "metered"),
        ("auto", False, {"virtual_machine": None}, "no virtual machine"),
    ],
)
def test_cores_may_idle(
    device: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    power_command: bool,
    detected: dict[str, object],
    why: str,
) -> None:
    for name, found in detected.items():
        monkeypatch.setattr(module, name, lambda found=found: found)
    with asked(value, power_command=power_command) as latency:
        assert not is_held(device)
    assert latency.figure.value is None
    assert why in str(latency.figure.reason)
    with asked("on"):
        assert is_held(device)


def test_a_kernel_that_refuses_is_told_and_stops_only_who_insists(device: Path) -> None:
    device.unlink()
    with asked() as latency:
        assert latency.figure.value is None
        assert "No such file" in str(latency.figure.reason)
    with pytest.raises(OptionError, match=r"--cpu-latency-qos on: .*No such file"):
        asked("on")
