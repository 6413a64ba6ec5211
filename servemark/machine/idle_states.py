"""Maximum sleep of an idle core: Linux's CPU latency QoS (admin-guide/pm/cpuidle, power/pm_qos_interface).

A process that holds /dev/cpu_dma_latency open lets every core wake up within that time. At 0 idle cores poll, in a
virtual machine too, whose host otherwise gives them to somebody else and takes a while to give them back. cyclictest
and tuned's latency-performance profile do the same.
"""

import os
import struct
from pathlib import Path

DEVICE = Path("/dev/cpu_dma_latency")


def hold_awake(device: Path = DEVICE) -> int:
    """Keep all cores out of idle states until the file descriptor that it returns is closed. Raises OSError."""
    descriptor = os.open(device, os.O_WRONLY)
    try:
        os.write(descriptor, struct.pack("=i", 0))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def refusal(device: Path = DEVICE) -> str | None:
    """Return the reason why cores cannot be kept awake by this process; None if they can."""
    try:
        os.close(hold_awake(device))
    except OSError as error:
        return f"{device}: {error.strerror}"
    return None
