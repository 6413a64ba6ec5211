import itertools
from collections.abc import Callable

import pytest

from servemark.telemetry.energy import Meter
from servemark.telemetry.energy.meter import UnavailableError
from servemark.telemetry.power import Power


def figures(power: Power) -> list[float | str]:
    """Power, then energy."""
    return list(power.read().values())


def every(seconds: float) -> Callable[[], int]:
    """A clock that goes on so much each time."""
    times = itertools.count()
    return lambda: round(next(times) * seconds * 1e9)


def test_a_counter_s_power_is_the_mean_of_the_last_second() -> None:
    joules = itertools.chain([50.0], itertools.accumulate(itertools.repeat(10.0), initial=60.0))
    power = Power(Meter("rapl", "cpu_package", lambda: (next(joules) % 100, 0.0), ranges_j=[100.0, 100.0]), every(0.1))
    found = [figures(power) for _ in range(30)]
    assert found[0] == ["a counter's power needs two readings", 0]
    # 10 J in 0.1 s; the counter wraps around every second
    assert found[1] == [pytest.approx(100), 10]
    assert found[-1] == [pytest.approx(100), 290]
    labels = {"boundary": "cpu_package", "source": "rapl"}
    assert [dict(column.labels) for column in power.read()] == [labels, labels]
    assert [column.counter for column in power.read()] == [False, True]


def test_a_meter_of_power_is_integrated() -> None:
    watts = iter([100.0, 200.0, 200.0])
    power = Power(Meter("nvml_power", "gpu_board", lambda: (next(watts),), ranges_j=None), every(1))
    assert [figures(power) for _ in range(3)] == [[100, 0], [200, 150], [200, 350]]


def test_a_meter_that_is_lost_stays_lost() -> None:
    """It would not know what was used meanwhile."""
    answers = iter([5.0, None, 9.0])

    def read() -> tuple[float, ...]:
        if (answer := next(answers)) is None:
            raise UnavailableError("energy_uj: permission denied")
        return (answer,)

    power = Power(Meter("rapl", "dram", read, ranges_j=[100.0]))
    figures(power)
    assert figures(power) == figures(power) == ["energy_uj: permission denied"] * 2
