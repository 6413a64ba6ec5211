"""Time in which this machine wakes a waiting process, which bounds the precision of a meter in another process.

python -m benchmarks.generator.wake_up
"""

import os
import select
import socket
import struct
import time

import numpy as np

ASLEEP_MS = (0.2, 1, 10, 100)
WAKES, MAX_DURATION_S = 300, 4.0


def wake_up() -> None:
    """Print the time from a write on one core to the reader's clock on another, by how long the reader slept."""
    for asleep_ms in ASLEEP_MS:
        took_us = wake_ups_us(asleep_ms, min(WAKES, round(MAX_DURATION_S * 1e3 / asleep_ms)))
        p50, p90 = np.percentile(took_us, (50, 90))
        print(f"a process that slept {asleep_ms:g} ms wakes up in {p50:.0f} µs (p50), {p90:.0f} µs (p90)", flush=True)


def wake_ups_us(asleep_ms: float, count: int) -> list[float]:
    """From the writer's clock to the reader's, in µs; the writer polls the clock and never sleeps."""
    ours, theirs = socket.socketpair()
    writer = os.fork()
    if not writer:
        for _ in range(count):
            until = time.monotonic_ns() + round(asleep_ms * 1e6)
            while time.monotonic_ns() < until:
                pass
            theirs.send(struct.pack("q", time.monotonic_ns()))
        os._exit(0)
    took_us = []
    with ours, theirs, select.epoll() as epoll:
        epoll.register(ours, select.EPOLLIN)
        for _ in range(count):
            epoll.poll()
            [sent] = struct.unpack("q", ours.recv(8))
            took_us.append((time.monotonic_ns() - sent) / 1e3)
    os.waitpid(writer, 0)
    return took_us


if __name__ == "__main__":
    wake_up()
