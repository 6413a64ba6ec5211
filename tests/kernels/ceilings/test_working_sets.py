"""Working sets: capped by reported cache and free memory, ended where the bandwidth settles, judged by their knee."""

from itertools import pairwise

import pytest

from kernels.ceilings.working_sets import (
    SMALLEST_BYTES,
    disturbed,
    doubt,
    falling,
    fitting,
    held_bytes,
    settled,
    sizes,
)
from kernels.measurement.case import MIB
from servemark.results.schema.kernels import Bandwidth


def steps(*found: tuple[float, float]) -> list[Bandwidth]:
    """Bandwidths by MiB."""
    return [{"mib": mib, "gbps": gbps, "of": "copy"} for mib, gbps in found]


@pytest.mark.parametrize(("cache_mib", "largest_mib"), [(4, 256), (32, 256), (480, 4096), (2048, 16384)])
def test_the_largest_set_fills_the_reported_cache_several_times(cache_mib: int, largest_mib: int) -> None:
    found = sizes(cache_mib * MIB)
    assert (found[0], found[-1]) == (SMALLEST_BYTES, largest_mib * MIB)
    assert all(after == 2 * before for before, after in pairwise(found))


def test_a_set_takes_a_quarter_of_the_free_memory_at_most() -> None:
    found, said = fitting(sizes(480 * MIB), 2048 * MIB)
    assert found[-1] == 512 * MIB
    assert said == "working sets above 512 MiB: 25% of the free memory are 512 MiB"
    assert fitting(sizes(4 * MIB), 2048 * MIB) == (sizes(4 * MIB), None)
    assert fitting(sizes(4 * MIB), 1000) == ([], "all working sets: 25% of the free memory are 0 KiB")


def test_two_sets_as_slow_as_memory_have_settled() -> None:
    assert not settled(steps((1, 10.0)), 10.0)
    assert not settled(steps((1, 12.0), (2, 10.0)), 10.0)
    assert settled(steps((1, 50.0), (2, 10.9), (4, 9.2)), 10.0)
    assert not settled(steps((1, 50.0), (2, 2.0), (4, 10.0)), 10.0)  # other work made it slower than memory


def test_a_set_slower_than_memory_was_disturbed_unless_small_calls_are_slow_there() -> None:
    assert disturbed(steps((8, 100.0)), 2.0, 10.0)
    assert not disturbed(steps((8, 100.0)), 9.0, 10.0)
    assert not disturbed(steps((0.125, 1.0)), 2.0, 10.0)  # a GPU's, whose call takes longer than its bytes


def test_a_small_call_s_ceiling_is_at_least_a_larger_one_s() -> None:
    assert falling(steps((2, 9.0), (1, 20.0), (0.5, 5.0))) == steps((0.5, 20.0), (1, 20.0), (2, 9.0))


@pytest.mark.parametrize(
    ("reported_mib", "held_mib"),
    [(480, 64), (2048, 64), (64, 64), (4, 64)],  # some machines report too small a cache
)
def test_the_cache_is_what_was_seen_of_it(reported_mib: int, held_mib: int) -> None:
    found = steps((1, 100.0), (16, 90.0), (32, 60.0), (64, 11.0), (128, 10.5), (2048, 10.0))
    assert held_bytes(found, reported_mib * MIB) == held_mib * MIB


def test_a_knee_that_other_work_has_moved_is_bounded() -> None:
    found = steps((1, 100.0), (1024, 60.0), (2048, 10.0))
    assert [held_bytes(found, reported * MIB) // MIB for reported in (4, 480, 4096)] == [128, 480, 2048]


def test_without_a_knee_or_a_measurement_no_large_cache_is_taken_for_granted() -> None:
    assert held_bytes(steps((0.125, 10.0), (2048, 10.0)), 480 * MIB) == MIB // 8
    assert held_bytes([], 2048 * MIB) == 32 * MIB
    assert held_bytes([], 4 * MIB) == 4 * MIB


def test_a_largest_set_that_the_cache_may_hold_is_doubted() -> None:
    assert doubt(1024 * MIB, 480 * MIB) is None
    assert doubt(512 * MIB, 480 * MIB) == (
        "working sets above 512 MiB, though the system reports a cache of 480 MiB: "
        "the memory may be slower than the slowest of them"
    )
