"""The offset between two clocks, estimated from round trips."""

import random

from loadgen.distributed.clock_offset import ClockOffset, RoundTrip

S, MS = 1_000_000_000, 1_000_000


def test_the_clock_offset_is_true_to_within_its_uncertainty_whichever_way_was_slow() -> None:
    rng, offset = random.Random(3), -987_654_321_012  # noqa: S311 - no secret
    for _ in range(200):
        trips, now = [], rng.randrange(10**12)
        for _ in range(10):
            there, back = rng.randrange(20 * MS), rng.randrange(20 * MS)
            trips.append(RoundTrip(now, now + there + offset, now + there + back))
            now += there + back + 1000
        found = ClockOffset.estimate(trips)
        assert abs(found.offset_ns - offset) <= found.uncertainty_ns
        assert found.uncertainty_ns <= min(trip.length for trip in trips) // 2 + 1
        assert found.theirs(now) == now + found.offset_ns
