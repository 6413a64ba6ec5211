"""Counts of requests that are due, sent and in flight."""

import numpy as np
import pytest

from loadgen.driver.connections import MS
from loadgen.measurement.windows import Traffic, scheduled_by


@pytest.mark.parametrize(("elapsed_ms", "due"), [(-2000, 0), (-1, 0), (0, 0), (1, 1), (101, 2), (950, 10), (1000, 10)])
def test_what_is_due_counts_from_the_end_of_the_warm_up(elapsed_ms: int, due: int) -> None:
    schedule = np.arange(0, 2000, 100) * MS
    assert scheduled_by(schedule, 1000 * MS, elapsed_ms * MS) == due


def test_workers_are_added_up() -> None:
    parts = [Traffic(4, 3, 2, 1), Traffic(40, 30, 20, 10)]
    assert Traffic.of_workers([part.to_dict() for part in parts], None) == Traffic(44, 33, 22, 11)
    assert Traffic.of_workers([part.to_dict() for part in parts], 50).scheduled == 50
