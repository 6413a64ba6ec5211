"""Limits that end a run early: at the first request that decides it, never by chance before, and in the result."""

from pathlib import Path

import pytest

from loadgen.measurement.measurement import FEWEST_TO_ABORT, reason_to_abort
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload
from servemark.errors import OptionError
from servemark.figures.registry import count_of
from servemark.results.objectives import parse_objectives
from tests.golden.server import GoldenServer
from tests.support.load_config import request_of
from tests.support.locust_run import run, the_result
from tests.support.result_checks import check_schema

MS = 1_000_000


def recorded(good: int, slow: int = 0, failed: int = 0) -> Recorder:
    recorder = Recorder(Interval(0, 10**12, 1))
    for number in range(good + slow):
        due = number * MS
        recorder.on_good((due, due, due + (900 if number < slow else 1) * MS, 8))
    for number in range(failed):
        recorder.outcome(Outcome(Payload(b""), number * MS, number * MS, 0, "timeout", "late", None))
    recorder.flush()
    return recorder


@pytest.mark.parametrize(
    ("limit", "seen", "aborts"),
    [
        ("errors:10%", {"good": FEWEST_TO_ABORT - 3, "failed": 2}, False),  # too few to judge
        ("errors:10%", {"good": 90, "failed": 10}, False),
        ("errors:10%", {"good": 89, "failed": 11}, True),
        ("p99:500", {"good": 5, "slow": 5}, False),  # of the 1,000 that p99 needs, 5 may be slow
        ("p99:500", {"good": 0, "slow": 11}, True),
        ("p99:500", {"good": 0, "failed": 11}, True),  # a failed request is longer than every limit
        ("service_p50:500", {"good": 60, "slow": 40}, False),
        ("service_p50:500", {"good": 40, "slow": 60}, True),
    ],
)
def test_a_limit_is_judged_by_what_is_measured_so_far(limit: str, seen: dict[str, int], aborts: bool) -> None:
    reason = reason_to_abort(parse_objectives(limit), recorded(**seen))
    assert (reason is not None) is aborts
    assert reason is None or reason.startswith(f"--abort-on {limit.split(':', maxsplit=1)[0]}:")


def test_a_run_ends_and_keeps_what_was_measured(tmp_path: Path) -> None:
    flags = ["--model-name", "m", "--request-rate", "100", "--duration", "60", "--warmup", "0.2"]
    with GoldenServer(model="m", error_every=2) as server:
        done = run("any_model", *flags, "--abort-on", "errors:10%", "--url", server.url, "--out", str(tmp_path))
    result = the_result(tmp_path)
    check_schema(result)
    assert done.returncode == 2
    assert result["partial"]
    assert count_of(result, "errors.count") > 0
    assert "--abort-on errors:0.1" in done.stdout


@pytest.mark.parametrize("text", ["throughput:5", "errors:5ms", "p99"])
def test_what_cannot_be_judged_on_the_way_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--abort-on"):
        request_of("", "--abort-on", text)


def test_users_think_between_their_requests(tmp_path: Path) -> None:
    flags = ["--model-name", "m", "--users", "3", "--think-time", "0.2", "--duration", "2", "--warmup", "0"]
    with GoldenServer(model="m", delay_s=0.01) as server:
        run("any_model", *flags, "--url", server.url, "--out", str(tmp_path))
        came = [entry["arrival_ns"] for entry in server.requests()]
    result = the_result(tmp_path)
    check_schema(result)
    assert result["request"]["load"]["think_time_s"] == [0.2, 0.2]
    # Each user sends at most once in 0.2 s.
    assert 3 < count_of(result, "requests.answered") <= 3 * (len(came) and 2 / 0.2 + 1)
