"""Shares of a load: together they are the whole, each request once."""

from itertools import count
from pathlib import Path

import pytest

from loadgen.load.arrivals import Share
from tests.support.load_config import config

LOADS = {
    "poisson": ["--request-rate", "300"],
    "constant": ["--request-rate", "300", "--request-distribution", "constant"],
    "gamma": ["--request-rate", "300", "--request-distribution", "gamma", "--gamma-cv", "3"],
    "stages": ["--stages", "1:100,0.5:0,1:400"],
    "trace": ["--arrival-trace", "{trace}"],
}


@pytest.mark.parametrize("of", [1, 2, 3, 7, 400])
@pytest.mark.parametrize("load", LOADS)
def test_the_shares_together_are_the_whole_schedule(load: str, of: int, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{0.007 * number:.3f},{number % 5}\n" for number in range(200)))
    flags = [flag.format(trace=trace) for flag in LOADS[load]]
    whole = config("ranking_tiny", *flags, "--duration", "2", "--warmup", "0.5").scenario.schedule(5)
    assert whole is not None
    assert whole.size > 100
    sent: list[tuple[int, int]] = []
    for index in range(of):
        share = Share(index, of)
        arrivals = share.arrivals(whole).tolist()
        assert len(arrivals) == share.count(whole.size)
        sent += zip(arrivals, share.requests(count()), strict=False)
    # each arrival once, with the request that one process would have sent then
    assert sorted(sent) == sorted(zip(whole.tolist(), count(), strict=False))


@pytest.mark.parametrize("of", range(1, 9))
def test_connections_are_split_evenly(of: int) -> None:
    for whole in (0, 1, 5, 8, 1024):
        parts = [Share(index, of).count(whole) for index in range(of)]
        assert sum(parts) == whole
        assert max(parts) - min(parts) <= 1
