"""Working sets: which are worth measuring, and how much of them these cores were seen to hold.

One roof of bandwidth is not enough where data stays in a cache. So the bandwidth is measured by working set, from what
each core's cache holds to what none does (the cache-aware roofline: Ilic, Pratas and Sousa, IEEE Computer Architecture
Letters 13(1), 2014; the hierarchical one: Yang, Kurth and Williams, Concurrency and Computation 32(20), 2020).

A virtual machine reports the cache of its host, of which its cores hold a part, or none at all. What they hold is the
knee of the bandwidth over the size. A GPU is given whole and reports its own cache, which has no knee to look for: a
copy that fits into it takes no longer than its launch (H200, 32 MiB of 60: 7.5 us, of which 6.5 are the call).
"""

from collections.abc import Iterable, Sequence

from kernels.measurement.case import MIB
from kernels.measurement.device import USUAL_CACHE_BYTES
from servemark.results.schema.kernels import Bandwidth

SMALLEST_BYTES = 128 << 10
CACHES = 8
"""Last-level caches that the largest working set fills: of a smaller one a part would come from the cache."""
MIN_LARGEST_BYTES = CACHES * USUAL_CACHE_BYTES
HIDDEN_BYTES = 128 << 20
"""The most that cores are taken to hold where the system reports less, or nothing."""
FREE_SHARE = 0.25
"""Of the free memory, for the largest working set: other programs need some meanwhile."""
SETTLED = 1.1
"""A bandwidth within this ratio of the memory's is the memory's, where the next one is too."""
STEP = 1.25
"""A bandwidth above this ratio of the memory's is a cache's."""
BEYOND = 2
"""Reported caches that a working set has to exceed before it is known to come from memory."""


def sizes(cache_bytes: int) -> list[int]:
    """Working sets (bytes), each twice the one before, up to several times the reported cache."""
    largest = max(CACHES * cache_bytes, MIN_LARGEST_BYTES)
    found = [SMALLEST_BYTES]
    while found[-1] < largest:
        found.append(2 * found[-1])
    return found


def fitting(wanted: Sequence[int], free_bytes: int) -> tuple[list[int], str | None]:
    """Those that the free memory has room for, and what is said of the others."""
    room = int(FREE_SHARE * free_bytes)
    found = [size for size in wanted if size <= room]
    if len(found) == len(wanted):
        return found, None
    above = f"working sets above {words(found[-1])}" if found else "all working sets"
    return found, f"{above}: {FREE_SHARE:.0%} of the free memory are {words(room)}"


def settled(found: Sequence[Bandwidth], memory_gbps: float) -> bool:
    """Return True if the last two bandwidths are the memory's: larger working sets then tell nothing new."""
    return len(found) > 1 and all(memory_gbps / SETTLED <= each["gbps"] <= SETTLED * memory_gbps for each in found[-2:])


def disturbed(found: Sequence[Bandwidth], gbps: float, memory_gbps: float) -> bool:
    """Return True if a set is far slower than memory, after smaller ones were faster: other work took the cores."""
    return gbps * STEP < memory_gbps and any(each["gbps"] > STEP * memory_gbps for each in found)


def falling(found: Iterable[Bandwidth]) -> list[Bandwidth]:
    """Bandwidths by working set, ascending, none below that of a larger set: small calls are slowed by calling."""
    highest: list[Bandwidth] = []
    for each in sorted(found, key=lambda each: each["mib"], reverse=True):
        last = highest[-1] if highest else each
        highest.append(each if each["gbps"] >= last["gbps"] else {**last, "mib": each["mib"]})
    return highest[::-1]


def held_bytes(found: Sequence[Bandwidth], reported_bytes: int) -> int:
    """Return the cache that these cores hold: the first working set as slow as memory, after the last that is faster.

    It is never more than the system reports or may hide: other work makes a set of any size look slow or fast.
    """
    most = max(reported_bytes, HIDDEN_BYTES)
    if not found:
        return min(reported_bytes, USUAL_CACHE_BYTES)
    fast = [each["mib"] for each in found if each["gbps"] > STEP * found[-1]["gbps"]]
    beyond = [each["mib"] for each in found if not fast or each["mib"] > fast[-1]]
    return min(int(beyond[0] * MIB), most)


def doubt(largest_bytes: int, reported_bytes: int) -> str | None:
    """Return a note if the largest working set may have come from a cache, else None."""
    if largest_bytes >= BEYOND * reported_bytes:
        return None
    return (
        f"working sets above {words(largest_bytes)}, though the system reports a cache of {words(reported_bytes)}: "
        "the memory may be slower than the slowest of them"
    )


def words(size_bytes: int) -> str:
    """A size in words: "512 MiB", "128 KiB"."""
    return f"{size_bytes / MIB:,.0f} MiB" if size_bytes >= MIB else f"{size_bytes / 1024:,.0f} KiB"
