"""What is read at the edges of the measured interval: the energy of the target, idle and under load."""

from collections.abc import Sequence

import pytest

from loadgen.evaluation import metrics
from loadgen.measurement import boundary_readings
from loadgen.measurement.measurement import Measured
from loadgen.measurement.recorder import Interval, Recorder
from servemark.telemetry.energy import Meter
from tests.support.load_config import config

S = 1_000_000_000
STILL = "rapl did not move within"


class LocalTarget:
    """A target on this machine that has no statistics."""

    local = True

    def statistics(self) -> None:
        return None


def energy(joules: Sequence[float], completed: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The figures of a counter that shows these values at the edges: idle's two, then the interval's."""
    values = iter(joules)
    meter = Meter("rapl", "cpu_package", lambda: (next(values),), ranges_j=[1000.0])
    monkeypatch.setattr(boundary_readings, "open_meter", lambda _boundary, **_: (meter, None))
    monkeypatch.setattr(boundary_readings, "IDLE_S", 0.001)
    found = boundary_readings.Edges(LocalTarget(), "cpu")  # type: ignore[arg-type] # the part of a target that edges read
    found.begin()
    found.finish()
    found.wait()
    recorder = Recorder(Interval(0, S, 1))
    recorder.completed = completed
    measured = Measured(recorder, found.start, found.end, energy=found.energy, idle=found.idle)
    return metrics._energy(config("ranking_tiny", "--batch-size", "4"), measured)


def test_joules_are_those_between_the_edges_over_what_was_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = energy([10, 10.5, 900, 100], 50, monkeypatch)
    assert figures["joules"] == 200  # it wrapped around at 1000
    assert figures["joules_per_inference"] == 200 / (50 * 4)
    assert not [key for key in figures if key.endswith("_reason")]


@pytest.mark.parametrize(
    ("joules", "completed", "unknown"),
    [
        ([10, 10, 20, 30], 1, {"idle_w": STILL}),
        ([10, 20, 30, 30], 1, dict.fromkeys(("joules", "average_w", "joules_per_inference"), STILL)),
        ([10, 20, 30, 40], 0, {"joules_per_inference": "no inference was completed"}),
    ],
)
def test_each_figure_that_is_not_known_has_its_own_reason(
    joules: list[float], completed: int, unknown: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = energy(joules, completed, monkeypatch)
    assert {key for key, value in figures.items() if value is None} == unknown.keys()
    for key, why in unknown.items():
        assert str(figures[f"{key}_reason"]).startswith(why)
