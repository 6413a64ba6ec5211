import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servemark.telemetry.recording import MAX_COLUMNS, Column, Reading, Recording

WATTS = Column("power_watts", "watts", (("boundary", "dram"),))
JOULES = Column("energy_joules_total", "joules", counter=True)


def columns(recording: Recording) -> dict[str, list[float | None]]:
    return {column["name"]: column["values"] for column in recording.to_dict()["columns"]}


def test_a_reading_is_a_point() -> None:
    recording = Recording()
    for second in range(3):
        recording.add(second, {WATTS: 100.0 + second, JOULES: 7.0 * second})
    found = recording.to_dict()
    assert found["time_s"] == [0, 1, 2]
    assert found["columns"][0] == {
        "name": "power_watts",
        "unit": "watts",
        "labels": {"boundary": "dram"},
        "counter": False,
        "values": [100, 101, 102],
        "reason": None,
    }
    assert found["columns"][1]["values"] == [0, 7, 14]


def test_a_figure_that_is_lost_is_null_from_there_and_says_why() -> None:
    recording = Recording()
    recording.add(0, {WATTS: 5.0})
    recording.add(1, {WATTS: "the board fell off the bus"})
    recording.add(2, {})
    found = recording.to_dict()["columns"][0]
    assert found["values"] == [5, None, None]
    assert found["reason"] == "the board fell off the bus"


def test_a_column_that_comes_late_is_null_before() -> None:
    recording = Recording()
    recording.add(0, {WATTS: 5.0})
    recording.add(1, {WATTS: 6.0, JOULES: 1.0})
    assert columns(recording) == {"power_watts": [5, 6], "energy_joules_total": [None, 1]}


def test_a_long_series_is_thinned() -> None:
    recording = Recording(max_points=4)
    for second in range(16):
        recording.add(second, {WATTS: float(second), JOULES: 10.0 * second})
    found = recording.to_dict()
    assert recording.readings_per_point == 8
    assert found["time_s"] == [7, 15]
    assert columns(recording) == {"power_watts": [3.5, 11.5], "energy_joules_total": [70, 150]}


def test_thinning_keeps_what_is_known() -> None:
    recording = Recording(max_points=4)
    readings: list[Reading] = [{WATTS: 1.0}, {WATTS: "lost"}, {WATTS: "lost"}, {WATTS: "lost"}]
    for second, reading in enumerate(readings):
        recording.add(second, reading)
    assert columns(recording) == {"power_watts": [1, None]}
    assert recording.to_dict()["columns"][0]["reason"] == "lost"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400), st.sampled_from([2, 4, 10, 64]))
def test_a_thinned_series_is_bounded_and_keeps_mean_and_end(values: list[float], max_points: int) -> None:
    recording = Recording(max_points)
    total = 0.0
    for second, value in enumerate(values):
        total += value
        recording.add(second, {WATTS: value, JOULES: total})
    found = recording.to_dict()
    assert len(found["time_s"]) < max_points
    each = recording.readings_per_point
    assert len(values) - len(found["time_s"]) * each in range(each)
    kept = values[: len(found["time_s"]) * each]
    watts, joules = (column["values"] for column in found["columns"])
    if kept:
        assert math.fsum(value or 0.0 for value in watts) * each == pytest.approx(math.fsum(kept), rel=1e-4, abs=1e-4)
        assert joules[-1] == pytest.approx(math.fsum(kept), rel=1e-6, abs=1e-9)


def test_the_number_of_columns_is_bounded() -> None:
    recording = Recording()
    many: Reading = {Column(f"metric_{number}", ""): 1.0 for number in range(2 * MAX_COLUMNS)}
    recording.add(0, many)
    assert len(recording.to_dict()["columns"]) == MAX_COLUMNS
