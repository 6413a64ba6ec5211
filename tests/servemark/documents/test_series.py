"""Ranges of concurrencies and rates, START:END[:STEP], and the runs that they ask for."""

import pytest

from servemark.documents.flags import made, request_of
from servemark.documents.series import Series
from servemark.errors import OptionError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:4", "1 2 3 4"),
        ("1:16:5", "1 6 11 16"),
        ("2:9:5", "2 7"),
        ("3:3", "3"),
        ("0.25:1:0.25", "0.25 0.5 0.75 1"),
    ],
)
def test_both_ends_belong_to_a_range(text: str, expected: str) -> None:
    points = made(Series, {"request_rate_range": text}).points({})
    assert [point["request_rate"] for point in points] == expected.split()


def test_a_range_has_a_hundred_runs_at_most() -> None:
    assert Series().points({}) == [{}]
    assert len(made(Series, {"concurrency_range": "1:100"}).points({})) == 100
    with pytest.raises(OptionError, match="asks for 101 runs"):
        made(Series, {"concurrency_range": "1:101"})


@pytest.mark.parametrize(
    ("own", "shared", "what"),
    [
        ({"request_rate_range": "1:2"}, {"concurrency": "3"}, "--concurrency and --request-rate-range exclude"),
        ({"request_rate_range": "1:2", "concurrency_range": "1:2"}, {}, "-range and --request-rate-range exclude"),
        ({"repeat": "2"}, {"max_rate": "auto", "slo": "p99:5"}, "--max-rate and --repeat exclude"),
        ({"repeat": "2"}, {"model": "a=1,b=1", "workers": "2"}, "a mix has no --repeat, --workers"),
    ],
)
def test_what_a_series_cannot_have(own: dict[str, str], shared: dict[str, str], what: str) -> None:
    series = made(Series, own)
    with pytest.raises(OptionError, match=what):
        series.require_fit(request_of({**shared, **series.points(shared)[0]}))
