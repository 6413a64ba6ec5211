"""A command that makes several runs: ranges of concurrencies and rates, START:END[:STEP], and what they exclude."""

import pytest

from servemark.documents.commands.measure import Run
from servemark.errors import OptionError
from tests.support.load_config import document


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
    points = document(Run, "x", "--request-rate-range", text).points()
    assert [point["request_rate"] for point in points] == expected.split()


def test_a_range_has_a_hundred_runs_at_most() -> None:
    assert document(Run, "x").points() == [{}]
    assert len(document(Run, "x", "--concurrency-range=1:100").points()) == 100
    with pytest.raises(OptionError, match="asks for 101 runs"):
        document(Run, "x", "--concurrency-range=1:101")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("x --request-rate-range 1:2 --concurrency 3", "--concurrency and --request-rate-range exclude"),
        ("x --request-rate-range 1:2 --concurrency-range 1:2", "-range and --request-rate-range exclude"),
        ("x --repeat 2 --slo p99:5 --max-rate", "--max-rate and --repeat exclude"),
        ("a=1,b=1 --repeat 2 --workers 2", "a mix has no --repeat, --workers"),
    ],
)
def test_what_a_series_cannot_have(line: str, what: str) -> None:
    asked = document(Run, *line.split())
    with pytest.raises(OptionError, match=what):
        asked.require_fit(asked.request(asked.workload, **asked.points()[0]))
