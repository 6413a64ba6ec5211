"""The soak's figures, from logs and readings whose answers are known."""

from pathlib import Path

import pytest

from benchmarks.system.soak import Memory, slices
from servemark.library import read_requests

MS = 1_000_000


def test_slices_count_requests_failures_and_delays_where_they_were_scheduled(tmp_path: Path) -> None:
    log = tmp_path / "requests.csv"
    rows = [
        "-5,1,2,",  # the warm-up
        f"0,{1 * MS},{3 * MS},",
        f"{400 * MS},{401 * MS},{405 * MS},",
        f"{600 * MS},{602 * MS},{610 * MS},",
        f"{900 * MS},,{950 * MS},timeout",  # never sent
        f"{999 * MS},{1001 * MS},{1009 * MS},",
    ]
    log.write_text("\n".join(["scheduled_ns,sent_ns,done_ns,error", *rows]) + "\n")
    requests = read_requests(tmp_path)
    assert requests
    first, second = slices(requests, 2, 1.0)
    assert (first.requests, first.errors, first.latency_p50, first.delay_p50) == (2, 0, 4.0, 1.0)
    assert (second.requests, second.errors, second.latency_p50, second.delay_p50) == (3, 1, 10.0, 2.0)
    assert second.delay_p99 == pytest.approx(50, rel=0.05)  # the request that never went out waited all its time


def test_growth_is_of_the_time_after_the_start_only() -> None:
    memory = Memory(seconds=[0, 10, 20, 30], mib=[10, 100, 101, 102])
    assert memory.growth(10) == pytest.approx(2)


def test_growth_is_not_a_number_where_there_is_no_line() -> None:
    assert not Memory(seconds=[0], mib=[10]).growth(0) <= 8
