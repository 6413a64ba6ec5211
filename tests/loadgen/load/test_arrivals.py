"""Schedules: equal for equal seeds, inside the duration, and distributed as their name says."""

import itertools
from itertools import count
from pathlib import Path
from threading import Timer

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from loadgen.load.arrivals import (
    ClosedLoopArrivals,
    OpenLoopArrivals,
    Share,
    Users,
    closed_loop,
    schedule,
    staged,
    start_time,
)
from servemark.documents.load import Distribution, Stage
from servemark.results import directory
from tests.support.load_config import config

MS = 1_000_000
RATES = [(0.5, 30.0), (100.0, 10.0), (2000.0, 3.0)]


def gaps_s(arrivals_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.diff(arrivals_ns, prepend=0) / 1e9


@pytest.mark.parametrize("distribution", list(Distribution))
@pytest.mark.parametrize(("rate", "duration_s"), RATES)
def test_ascending_inside_the_duration_and_equal_for_equal_seeds(
    distribution: Distribution, rate: float, duration_s: float
) -> None:
    first, again, other = (schedule(distribution, rate, duration_s, seed) for seed in (3, 3, 4))
    assert first.dtype == np.int64
    assert (np.diff(first) >= 0).all()
    assert first[0] >= 0
    assert first[-1] < duration_s * 1e9
    np.testing.assert_array_equal(first, again)
    assert np.array_equal(first, other) == (distribution is Distribution.CONSTANT)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [50.0, 5000.0])
def test_poisson_gaps_are_exponential(rate: float, seed: int) -> None:
    gaps = gaps_s(schedule(Distribution.POISSON, rate, 10_000 / rate, seed))
    assert stats.kstest(gaps, "expon", args=(0, 1 / rate)).pvalue > 0.001
    # Neighbouring gaps know nothing of each other: three deviations of the correlation of independent pairs.
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 3 / np.sqrt(len(gaps))


def test_the_ks_test_can_fail() -> None:
    gaps = gaps_s(schedule(Distribution.POISSON, 110, 100, 0))
    assert stats.kstest(gaps, "expon", args=(0, 1 / 100)).pvalue < 1e-6
    gaps = gaps_s(schedule(Distribution.CONSTANT, 100, 100, 0))
    assert stats.kstest(gaps, "expon", args=(0, 1 / 100)).pvalue < 1e-6


@pytest.mark.parametrize(
    ("rate", "duration_s", "count"),
    [(10, 1, 10), (3, 1, 3), (1, 2.5, 3), (0.2, 1, 1), (7, 3, 21), (300, 600, 180_000)],
)
def test_constant_arrivals_are_exactly_spaced_and_do_not_drift(rate: float, duration_s: float, count: int) -> None:
    arrivals = schedule(Distribution.CONSTANT, rate, duration_s, seed=0)
    assert len(arrivals) == count
    np.testing.assert_allclose(arrivals, np.arange(count) * 1e9 / rate, rtol=0, atol=1)


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("rate", [50.0, 5000.0])
def test_gamma_gaps_are_gamma(cv: float, rate: float) -> None:
    gaps = gaps_s(schedule(Distribution.GAMMA, rate, 20_000 / rate, 1, cv=cv))
    shape = cv**-2
    # Whole ns: gaps below that, which bursts of a large cv have, cannot be told from 0.
    gaps = gaps[gaps > 1e-8]
    law = stats.gamma(shape, scale=1 / (rate * shape))
    beyond = law.sf(1e-8)
    assert stats.kstest(gaps, lambda x: (law.cdf(x) - law.cdf(1e-8)) / beyond).pvalue > 0.001
    if cv > 1:
        other = stats.gamma((cv * 1.2) ** -2, scale=(cv * 1.2) ** 2 / rate)
        assert stats.kstest(gaps, other.cdf).pvalue < 1e-3


@pytest.mark.parametrize("cv", [0.5, 2.0, 4.0])
def test_a_short_gamma_schedule_has_the_asked_rate_on_average(cv: float) -> None:
    counts = [len(schedule(Distribution.GAMMA, 10, 10, seed, cv=cv)) for seed in range(2000)]
    # four standard errors; begun at an arrival, cv 4 would give 7.6 % too many
    assert np.mean(counts) == pytest.approx(100, abs=4 * np.std(counts) / np.sqrt(len(counts)))


STAGES = [Stage(10, 100), Stage(5, 0), Stage(2.5, 400), Stage(10, 20)]
EDGES_S = [0, 10, 15, 17.5, 27.5]


def test_each_stage_is_a_poisson_process_of_its_own_rate() -> None:
    counts = np.array([
        np.histogram(staged(Distribution.POISSON, STAGES, seed) / 1e9, bins=EDGES_S)[0] for seed in range(400)
    ])  # fmt: skip
    expected = np.array([stage.duration_s * stage.rate for stage in STAGES])
    # four standard errors: of the mean sqrt(m / 400), of the variance m * sqrt(2 / 400)
    assert (np.abs(counts.mean(axis=0) - expected) <= 4 * np.sqrt(expected / 400)).all()
    assert (np.abs(counts.var(axis=0) - expected) <= 4 * expected * np.sqrt(2 / 400)).all()
    assert (counts[:, 1] == 0).all()
    # neighbouring stages know nothing of each other
    assert abs(np.corrcoef(counts[:, 0], counts[:, 2])[0, 1]) < 4 / np.sqrt(400)


def test_gaps_are_exponential_right_after_a_boundary() -> None:
    """A schedule that finished the old rate's gap first, or began anew with a whole one, would be off here."""
    stages = [Stage(1, 2), Stage(5, 50)]
    first = [float(a[a >= 1e9][0]) / 1e9 - 1 for a in (staged(Distribution.POISSON, stages, s) for s in range(2000))]
    assert stats.kstest(first, "expon", args=(0, 1 / 50)).pvalue > 0.001
    before = [
        1 - float(a[a < 1e9][-1]) / 1e9
        for a in (staged(Distribution.POISSON, [Stage(1, 50), Stage(1, 2)], s) for s in range(2000))
    ]
    assert stats.kstest(before, "expon", args=(0, 1 / 50)).pvalue > 0.001


def test_constant_arrivals_of_stages_are_spaced_by_each_rate() -> None:
    arrivals = staged(Distribution.CONSTANT, [Stage(2, 2), Stage(1, 0), Stage(1, 4)], seed=0) / 1e9
    np.testing.assert_allclose(arrivals, [0, 0.5, 1, 1.5, 3, 3.25, 3.5, 3.75], atol=1e-9)
    # half a gap carries over a boundary: 1.5 arrivals in the first stage, the second in the middle of its gap
    arrivals = staged(Distribution.CONSTANT, [Stage(1.5, 1), Stage(1, 2)], seed=0) / 1e9
    np.testing.assert_allclose(arrivals, [0, 1, 1.75, 2.25], atol=1e-9)


@pytest.mark.parametrize("ramp", [Stage(4, 0, 100), Stage(4, 100, 0), Stage(4, 50, 150)])
def test_a_ramp_is_a_poisson_process_of_its_changing_rate(ramp: Stage) -> None:
    """Given their number, arrivals are independent draws by the rate (Cinlar, section 4.7)."""
    found = [staged(Distribution.POISSON, [Stage(1, 10), ramp, Stage(1, 10)], seed) / 1e9 - 1 for seed in range(200)]
    inside = [times[(times >= 0) & (times < 4)] for times in found]
    expected = ramp.mean_rate * ramp.duration_s
    assert abs(np.mean([len(times) for times in inside]) - expected) < 4 * np.sqrt(expected / 200)

    def share(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return (ramp.rate * t + (ramp.end_rate - ramp.rate) * t**2 / 8) / expected

    assert stats.kstest(np.concatenate(inside), share).pvalue > 0.001


def test_constant_arrivals_of_a_ramp_come_ever_faster() -> None:
    arrivals = staged(Distribution.CONSTANT, [Stage(4, 0, 4)], seed=0) / 1e9  # t^2 / 2 arrivals until t
    np.testing.assert_allclose(arrivals, np.sqrt(2 * np.arange(8)), atol=1e-9)


def test_one_stage_is_the_plain_schedule() -> None:
    for distribution in Distribution:
        split = staged(distribution, [Stage(3, 200), Stage(7, 200)], seed=5, cv=2.0)
        np.testing.assert_allclose(split, schedule(distribution, 200, 10, 5, cv=2.0), atol=2)


def test_a_rate_too_low_for_the_duration_gives_no_poisson_arrival() -> None:
    assert len(schedule(Distribution.POISSON, 1e-6, 1.0, seed=0)) == 0


def test_open_loop_keeps_its_schedule_however_late_it_is_asked() -> None:
    loop = OpenLoopArrivals([0, 10, 10, 25], start_ns=1000)
    assert loop.wanted(in_flight=0, now=10**9) == 0
    assert [loop.pop() for _ in range(3)] == [1000, 1010, 1010]
    assert (loop.next_due(), loop.finished(10**9)) == (1025, False)
    loop.stop()
    assert (loop.next_due(), loop.finished(0)) == (None, True)
    ends = OpenLoopArrivals([5], start_ns=0, end_ns=100)
    assert (ends.pop(), ends.finished(99), ends.finished(100)) == (5, False, True)
    ends.stop()
    assert ends.finished(0)


@pytest.mark.parametrize("taken", [0, 2])
def test_a_cut_has_the_later_arrivals_come_at_once(taken: int) -> None:
    loop = OpenLoopArrivals([0, 10, 20, 30, 40, 100, 105], start_ns=1000, end_ns=1200)
    assert [loop.pop() for _ in range(taken)] == [1000, 1010][:taken]
    assert loop.cut(1025, 1100) == (3 - taken, 2)
    left = []
    while loop.next_due() is not None:
        left.append(loop.pop())
    assert left == [*[1000, 1010, 1020][taken:], 1025, 1030]
    assert (loop.finished(1124), loop.finished(1125)) == (False, True)


def test_closed_loop_fills_up_to_its_concurrency_until_its_time() -> None:
    loop = ClosedLoopArrivals(3, lambda now: now >= 100)
    assert loop.next_due() is None
    assert [loop.wanted(in_flight, now) for in_flight, now in itertools.product((0, 2, 3), (99, 100))] == [
        3, 0, 1, 0, 0, 0,
    ]  # fmt: skip
    assert (loop.finished(99), loop.finished(100)) == (False, True)
    loop.stop()
    assert loop.finished(0)


def test_users_think_before_each_request_and_do_not_come_at_once() -> None:
    over_at, users = 10_000, Users(50, (0.1, 0.3), "0 0")
    arrivals = closed_loop(users, lambda now: now >= over_at * MS, 1000 * MS)
    assert arrivals.wanted(0, 0) == 0
    first = [arrivals.pop() for _ in range(50)]
    assert first == sorted(first)
    assert 1000 * MS <= first[0] < first[-1] <= 1300 * MS
    assert len(set(first)) == 50
    assert arrivals.next_due() is None  # all are in flight
    arrivals.wanted(48, 2000 * MS)  # two are answered
    due = [arrivals.pop(), arrivals.pop()]
    assert all(2100 * MS <= each <= 2300 * MS for each in due)
    for now in (3000, 3001):  # one is answered, and thinks
        arrivals.wanted(49, now * MS)
    arrivals.pop()
    assert arrivals.next_due() is None
    arrivals.wanted(49, 4000 * MS)
    assert arrivals.next_due() is not None
    assert arrivals.wanted(49, over_at * MS) == 0
    assert arrivals.next_due() is None
    assert arrivals.finished(over_at * MS)


def test_a_closed_loop_without_pauses_sends_at_once() -> None:
    arrivals = closed_loop(Users(4), lambda _: False, 0)
    assert (arrivals.wanted(1, 5), arrivals.next_due()) == (3, None)


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


def test_runs_that_share_a_start_file_begin_at_the_time_in_it(tmp_path: Path) -> None:
    """One that is still empty is not read."""
    file = tmp_path / "begin"
    file.touch()
    writer = Timer(0.05, directory.write_atomically, [file, "12345\n"])
    writer.start()
    assert (start_time(file), start_time(file)) == (12345, 12345)
    writer.join()
