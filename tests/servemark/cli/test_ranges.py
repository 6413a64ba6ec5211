"""Ranges of concurrencies and rates: START:END[:STEP]."""

from argparse import Namespace

import pytest

from servemark.cli._ranges import load_points
from servemark.errors import OptionError

LOAD = Namespace(concurrency="", request_rate="", stages="", arrival_trace="")


@pytest.mark.parametrize(
    ("text", "rates"),
    [("1:4", "1 2 3 4"), ("1:16:5", "1 6 11 16"), ("2:9:5", "2 7"), ("3:3", "3"), ("0.25:1:0.25", "0.25 0.5 0.75 1")],
)
def test_both_ends_belong_to_a_range(text: str, rates: str) -> None:
    assert [point["request_rate"] for point in load_points(LOAD, request_rate_range=text)] == rates.split()


def test_a_range_has_a_hundred_runs_at_most() -> None:
    assert load_points(LOAD) == [{}]
    assert len(load_points(LOAD, concurrency_range="1:100")) == 100
    with pytest.raises(OptionError, match="asks for 101 runs"):
        load_points(LOAD, concurrency_range="1:101")
