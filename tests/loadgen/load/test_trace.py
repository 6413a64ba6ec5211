"""Arrival times out of files: read, and refused by file and line."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from loadgen.load.scenario import Scenario, scenario_of
from loadgen.load.trace import read_trace
from servemark.documents import load as documents
from servemark.errors import InputDataError, OptionError
from tests.support.load_config import config


def scenario(*flags: str) -> Scenario:
    return config("ranking_tiny", *flags).scenario


@pytest.mark.parametrize(
    ("name", "text", "times", "samples"),
    [
        ("a.csv", "0\n0.5\n0.5\n2.25\n", [0, 0.5, 0.5, 2.25], None),
        ("a.csv", "0,3\n1.5,0\n", [0, 1.5], [3, 0]),
        ("a.csv", "time_s\n1\n2\n", [1, 2], None),
        ("a.csv", "user,sample,time_s\nx,2,0.1\ny,1,0.2\n", [0.1, 0.2], [2, 1]),
        ("a.csv", "0,9007199254740993\n1,1e3\n", [0, 1], [2**53 + 1, 1000]),
        ("a.jsonl", '{"time_s": 0, "sample": 9007199254740993}\n', [0], [2**53 + 1]),
        ("a.txt", "1e-3\n\n0.002\n", [0.001, 0.002], None),
        ("a.jsonl", "0.5\n1\n", [0.5, 1], None),
        ("a.jsonl", '{"time_s": 0.5, "sample": 4}\n{"time_s": 3, "sample": 0, "user": "x"}\n', [0.5, 3], [4, 0]),
    ],
)
def test_traces(name: str, text: str, times: list[float], samples: list[int] | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    trace = read_trace(tmp_path / name)
    assert trace.times_s.tolist() == times
    assert (None if trace.samples is None else trace.samples.tolist()) == samples
    assert trace.duration_s == int(times[-1]) + 1
    assert trace.to_dict()["arrivals"] == len(times)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "0\n2\n1\n", "t.csv:3: '1' is 1 s before the last: sort the arrivals"),
        ("t.csv", "0\n-0.5\n", "t.csv:2: -0.5 s is negative"),
        ("t.csv", "0\nnan\n", "t.csv:2: 'nan' is not a time: seconds"),
        ("t.csv", "0\nlater\n", "t.csv:2: 'later' is not a time: seconds from the start, Unix time or ISO 8601"),
        ("t.csv", "when,who\n1,2\n", "t.csv:1: the header has no column time_s or time or timestamp: 'when, who'"),
        ("t.csv", "1,2,3\n", "t.csv:1: 3 values, 2 at most are expected"),
        ("t.csv", "0,1\n1\n", "t.csv:2: 'sample' is given for some arrivals and missing for others"),
        ("t.csv", "0,1.5\n", "t.csv:1: '1.5' is not an index of a sample"),
        ("t.csv", "0,-1\n", "t.csv:1: '-1' is not an index of a sample"),
        ("t.csv", "time_s\n700000\n", "t.csv:2: 700000 s is more than a week: give seconds from the start"),
        ("t.csv", "1700000000\n1700700000\n", "t.csv lasts 700,001 s, more than a week"),
        ("t.csv", "0\n1700000000\n", "t.csv:2: '1700000000' is a calendar time, unlike"),
        ("t.csv", "2026-11-20T10:00:00Z\n3\n", "t.csv:2: '3' is no calendar time, unlike"),
        ("t.csv", "2026-11-20 10:00\n2026-11-20 09:59\n", "t.csv:2: '2026-11-20 09:5... is 60 s before the last"),
        ("t.csv", "time_s\n", "t.csv holds no arrival"),
        ("t.csv", "", "t.csv holds no arrival"),
        ("t.jsonl", '0.5\n{"when": 1}\n', "t.jsonl:2: no time_s or time or timestamp in"),
        ("t.jsonl", "0.5\n{\n", "t.jsonl:2: '{' is not JSON"),
        ("t.jsonl", "true\n", "t.jsonl:1: True is not a time"),
        ("t.csv", b"\xff\xfe", "t.csv is not a text"),
        ("t.csv", None, "t.csv cannot be read: No such file"),
        (
            "t.csv",
            "TOKEN=abcdefghijklmnop\n",
            "the header has no column time_s or time or timestamp: 'TOKEN=abcdefghi...",
        ),
        ("t.csv", "0\nTOKEN=abcdefghijklmnop\n", "t.csv:2: 'TOKEN=abcdefghi... is not a time"),
        ("t.csv", "0,TOKEN=abcdefghijklmnop\n", "t.csv:1: 'TOKEN=abcdefghi... is not an index of a sample"),
        ("t.jsonl", "TOKEN=abcdefghijklmnop\n", "t.jsonl:1: 'TOKEN=abcdefghi... is not JSON"),
        (
            "t.jsonl",
            '{"TOKEN": "abcdefghijklmnop"}\n',
            't.jsonl:1: no time_s or time or timestamp in \'{"TOKEN": "abcd...',
        ),
    ],
)
def test_bad_traces_name_file_and_line(name: str, text: str | bytes | None, words: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(InputDataError) as error:
        scenario("--arrival-trace", str(tmp_path / name))
    assert words in error.value.what
    assert "mnop" not in str(error.value)


CALENDAR = {
    "seconds": "1763632800.25\n1763632800.75\n1763632803\n",
    "milliseconds": "1763632800250\n1763632800750\n1763632803000\n",
    "microseconds": "1763632800250000\n1763632800750000\n1763632803000000\n",
    "nanoseconds": "1763632800250000000\n1763632800750000000\n1763632803000000000\n",
    "utc": "2025-11-20T10:00:00.250Z\n2025-11-20T10:00:00.750Z\n2025-11-20T10:00:03Z\n",
    "zones": "2025-11-20T12:00:00.250+02:00\n2025-11-20 10:00:00.75\n2025-11-20T10:00:03\n",
    "both": "timestamp\n1763632800.25\n2025-11-20T10:00:00.750Z\n1763632803000\n",
}


@pytest.mark.parametrize("text", CALENDAR.values(), ids=CALENDAR)
def test_calendar_times_count_from_the_first_arrival(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    trace = read_trace(tmp_path / "t.csv")
    assert trace.times_s.tolist() == pytest.approx([0, 0.5, 2.75], abs=1e-5)
    assert (trace.to_dict()["first"], trace.duration_s) == ("2025-11-20T10:00:00.250+00:00", 3)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_calendar_times_keep_their_nanoseconds(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("1763632800250000000\n1763632800250000100\n1763632800.250000600\n")
    assert read_trace(tmp_path / name).times_s.tolist() == [0, 1e-7, 6e-7]


def test_a_trace_is_played_faster(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1\n2\n7\n")
    found = scenario("--arrival-trace", str(tmp_path / "t.csv"), "--trace-speed", "2", "--warmup", "1")
    assert (found.duration_s, found.rate) == (4, 3 / 4)
    schedule = found.schedule(0)
    assert schedule is not None
    assert schedule[-3:].tolist() == [1_500_000_000, 2_000_000_000, 4_500_000_000]
    with pytest.raises(InputDataError, match=r"lasts 7,000,001 s, more than a week"):
        scenario("--arrival-trace", str(tmp_path / "t.csv"), "--trace-speed", "1e-6")


def test_a_trace_is_not_played_at_no_speed() -> None:
    with pytest.raises(OptionError, match="--trace-speed 0 must be above 0"):
        scenario("--arrival-trace", "t.csv", "--trace-speed", "0")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_trace_is_a_regular_file(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "trace.csv")
    with pytest.raises(
        InputDataError, match=r"trace\.csv cannot be read: (is a pipe, not a regular file|Is a directory)"
    ):
        read_trace(tmp_path / "trace.csv")


def test_a_trace_is_of_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servemark.files.DATA_BYTES", 10)
    (tmp_path / "trace.csv").write_text("0\n" * 5)
    assert len(read_trace(tmp_path / "trace.csv").times_s) == 5
    (tmp_path / "trace.csv").write_text("0\n" * 6)
    with pytest.raises(InputDataError, match=r"trace\.csv cannot be read: larger than"):
        read_trace(tmp_path / "trace.csv")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "x" * 200_000),
        ("t.jsonl", "1" * 400),
        ("t.jsonl", '{"time_s": 1, "sample": 1e300}'),
        ("t.jsonl", "[" * 200_000),
        ("t.csv", "1,1e300"),
        ("t.csv", "1,9223372036854775808"),
        ("t.csv", "1,9007199254740993.5"),
        ("t.csv", "1e99999999999999999999"),
    ],
)
def test_absurd_values_are_errors_in_the_trace(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputDataError) as error:
        read_trace(tmp_path / name)
    assert name in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("text", "speed", "asked"),
    [
        ("0\n10\n20\n30\n", 1, True),
        ("0\n1500.5\n4500.5\n", 1, True),
        ("0\n1\n2\n3\n", 1, False),
        ("0.5\n10.25\n30.5\n", 1, False),
        ("0\n10\n20\n30\n", 1000, False),
        ("1763632800\n1763632900\n1763633900\n", 1, False),
    ],
)
def test_a_trace_that_lasts_much_longer_than_its_count_suggests_is_asked_about(
    text: str, speed: float, asked: bool, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(text)
    question = scenario_of(documents.Trace(file=str(tmp_path / "t.csv"), speed=speed)).question
    assert ("milliseconds? Then add --trace-speed 1000" in question) == asked
