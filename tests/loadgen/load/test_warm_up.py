"""When a warm-up is over: against known transients, without a clock."""

from collections.abc import Callable

import numpy as np
import pytest

from loadgen.load.warm_up import WINDOW_NS, WarmUp, WarmUpOutcome, longest_s

S = 1_000_000_000
START = 7 * S


def warm(latency_ms: Callable[[float], float], rate: float = 200.0, most_s: float = 15.0) -> WarmUpOutcome:
    """A warm-up of evenly spaced answers whose latency depends on their time."""
    warm_up = WarmUp(START, most_s)
    bound = START + int(most_s * S)
    done = np.arange(START, bound, round(S / rate))
    warm_up.take(done, np.array([round(1e6 * latency_ms((at - START) / S)) for at in done.tolist()]))
    for now in range(START, bound, WINDOW_NS):
        if warm_up.is_over(now, now - 100):
            return warm_up.found(now, now - 100, now)
    return warm_up.found(bound, bound - 100, bound)


def test_an_even_latency_is_measured_after_the_shortest_warm_up() -> None:
    assert warm(lambda _: 5) == WarmUpOutcome(2.0, True, 0.0, None)


@pytest.mark.parametrize("rate", [20.0, 2000.0])
@pytest.mark.parametrize("over_s", [0.3, 1.0, 1.4])
def test_a_transient_is_cut_and_a_few_times_its_length_waited_for(over_s: float, rate: float) -> None:
    found = warm(lambda s: 50 if s < over_s else 5, rate)
    assert found.steady
    assert found.steady_from_s == pytest.approx(over_s, abs=0.11)
    assert found.seconds is not None
    assert max(2.0, 3 * over_s) <= found.seconds <= max(2.0, 4 * over_s) + 1.0


def test_what_begins_later_cannot_be_foreseen() -> None:
    assert warm(lambda s: 50 if s < 3 else 5).seconds == 2.0


def test_what_does_not_settle_goes_on_to_the_bound_and_says_so() -> None:
    found = warm(lambda s: 5 + s)
    assert (found.seconds, found.steady, found.steady_from_s) == (15.0, False, None)
    assert found.reason == "the latency was not steady by MSER within 15 s"
    # ended too late for waiting any longer, but in time for the second half to be steady
    assert warm(lambda s: 50 if s < 5 else 5).steady


def test_few_answers_do_not_tell() -> None:
    found = warm(lambda _: 5, rate=0.5)
    assert (found.seconds, found.steady) == (15.0, None)
    assert found.reason == "too few answers (8) came to tell whether the latency is steady"


def test_a_request_without_an_answer_is_waited_for() -> None:
    """One instance of two compiles: the other one's answers look steady."""
    warm_up = WarmUp(START, 15.0)
    done = np.arange(START, START + 15 * S, S // 100)
    warm_up.take(done, np.full(len(done), 5_000_000))
    ticks = range(START, START + 15 * S, WINDOW_NS)
    assert (
        next(now for now in ticks if warm_up.is_over(now, START if now < START + 6 * S else now))
        == START + 65 * S // 10
    )


def test_warm_ups_of_several_processes_are_one() -> None:
    rng = np.random.default_rng(0)
    done, latency = np.sort(rng.integers(START, START + 4 * S, 900)), rng.integers(1, 9, 900) * 1_000_000
    whole, merged, parts = WarmUp(START, 15.0), WarmUp(START, 15.0), []
    whole.take(done, latency)
    for index in range(3):
        # the other processes' clocks have another zero
        part = WarmUp(START + index * S, 15.0)
        part.take(done[index::3] + index * S, latency[index::3])
        since = None if index == 1 else part.start + 3 * S
        parts.append(part.pack(part.start + (40 + index) * S // 10, since))
    assert merged.merge(parts) == (START + 4 * S, START + 3 * S)
    end = START + 5 * S
    assert merged.found(end, end, end) == whole.found(end, end, end)


@pytest.mark.parametrize(("duration_s", "most_s"), [(0.5, 3), (8, 8), (3600, 30)])
def test_the_bound_follows_the_duration(duration_s: float, most_s: float) -> None:
    assert longest_s(duration_s) == most_s
