"""Settings of the C library's allocator: the generator keeps the memory that Python frees."""

import ctypes

# malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
MMAP_THRESHOLD_BYTES = 32 << 20
"""Blocks up to this size come from the heap; glibc takes no more."""
TRIM_THRESHOLD_BYTES = 256 << 20
"""Free heap memory kept by the process instead of returned to the OS."""


def tune_malloc() -> bool:
    """Keep freed blocks instead of giving them back to the kernel; whether the C library can be told so.

    Requests and responses of 100 kB and more are made and freed again and again. glibc gives such blocks back, and
    the kernel clears and maps new pages for the next ones: at 600 kB each way page faults were half of a request's CPU.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_M_MMAP_THRESHOLD: MMAP_THRESHOLD_BYTES, _M_TRIM_THRESHOLD: TRIM_THRESHOLD_BYTES}
    return all(mallopt(parameter, value) for parameter, value in settings.items())
