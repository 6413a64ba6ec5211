"""Plots of the machine: a line for each board or part, and no line that vanishes without a word."""

from typing import Any

import pytest

from servemark.views.blocks import Figure, Lines
from servemark.views.plots.machine import MAX_LINES, machine_series


def series(name: str, columns: list[tuple[dict[str, str], list[float | None]]]) -> Any:
    made = [
        {"name": name, "unit": "ratio", "labels": labels, "counter": False, "values": values, "reason": ""}
        for labels, values in columns
    ]
    source = {"source": "machine", "time_s": [0.0, 1.0], "columns": made, "absent": {}}
    return {"measured_from_s": 0.0, "measured_until_s": 1.0, "series": [source]}


@pytest.mark.parametrize(("held", "drawn"), [({"1": "hw_thermal", "7": "sw_power_cap"}, 2), ({}, 0)])
def test_of_throttling_only_the_reasons_that_ever_held_are_drawn(held: dict[str, str], drawn: int) -> None:
    boards = [(str(gpu), reason) for gpu in range(8) for reason in ("hw_thermal", "sw_power_cap")]
    columns: list[tuple[dict[str, str], list[float | None]]] = [
        ({"gpu": gpu, "reason": reason}, [0.0, float(held.get(gpu) == reason)]) for gpu, reason in boards
    ]
    [block] = machine_series(series("gpu_throttled", columns))
    if drawn:
        assert isinstance(block, Figure)
        assert [*block.table.head] == ["s", *(f"gpu {gpu}, reason {reason} %" for gpu, reason in held.items())]
    else:
        assert block == Lines(["gpu throttled: never"])


def test_lines_beyond_the_most_are_counted() -> None:
    columns: list[tuple[dict[str, str], list[float | None]]] = [({"gpu": str(gpu)}, [0.5, 0.5]) for gpu in range(11)]
    figure, lines = machine_series(series("gpu_utilization_ratio", columns))
    assert isinstance(figure, Figure)
    assert len(figure.table.head) == 1 + MAX_LINES
    assert lines == Lines(["gpu utilization: 3 more lines are in series.json"])
