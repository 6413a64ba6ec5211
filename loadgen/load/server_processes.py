"""Processes of this machine that serve a run."""

from collections.abc import Iterable

from loadgen.load.load_config import LoadConfig
from loadgen.transport.tcp import Address
from servemark.machine.addresses import named


def server_processes(config: LoadConfig, addresses: Iterable[Address]) -> list[int]:
    """Return the roots of their trees: who listens, and who was named. None: the server is on another machine.

    Raises LookupError where they cannot be known and none was named, OptionError for a name that no process has.
    """
    also = named(config.server.server_processes)
    try:
        listening = {pid for address in addresses for pid in address.processes()}
    except LookupError:
        if not also:
            raise
        listening = set()
    return sorted({*listening, *also})
