from collections import namedtuple
from typing import Any

import psutil
import pytest

from servemark.telemetry.host import CPU, MEMORY, STOLEN, Host

Times = namedtuple("Times", "user nice system idle iowait irq softirq steal guest guest_nice")


def test_shares_are_of_the_time_between_two_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([Times(10, 0, 5, 100, 1, 0, 0, 2, 3, 0), Times(12, 0, 6, 105, 2, 0, 0, 3, 5, 0)])
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(times))
    host = Host()
    first = host.read()
    assert first[CPU] == first[STOLEN] == "a share needs two readings"
    second = host.read()
    # 10 s of all cores: 3 busy (a guest's 2 are part of the user's), 5 idle, 1 waiting, 1 stolen.
    assert [second[CPU], second[STOLEN]] == pytest.approx([0.3, 0.1])


def test_clock_ticks_that_stand_still_have_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda: Times(*[1.0] * 10))
    host = Host()
    host.read()
    assert host.read()[CPU] == "the kernel's clock ticks did not move"


def test_this_machine() -> None:
    found: Any = Host().read()
    assert 0 < found[MEMORY] < psutil.virtual_memory().total
