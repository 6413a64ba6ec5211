"""Addresses: those of a name, whether they are reached from elsewhere, and which processes listen there."""

import _socket
import contextlib
import functools
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

import psutil

from servemark.machine.limits import SYSTEM

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of the namespace that sees every process: PROC_PID_INIT_INO, linux/proc_ns.h."""
_IP = (socket.AF_INET, socket.AF_INET6)
FORWARDERS = frozenset({"docker-proxy", "rootlessport", "slirp4netns", "pasta"})
"""They listen for a container whose processes they are not."""


@functools.cache
def lookup(host: str) -> tuple[tuple[int, tuple[str | int, ...]], ...]:
    """Family and socket address of each address of a name, with port 0. Raises OSError.

    The first answer holds until `forget`, so that load, questions and metrics of a run go to one server, also where a
    name changes or turns round. gevent's look-up would need its loop, which the threads that read metrics have not.
    """
    try:
        found = _socket.getaddrinfo(host, None, 0, socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host[:80]} cannot be the name of a host") from error
    return tuple((family, tuple(part for part in to if isinstance(part, str | int))) for family, *_, to in found)


def forget() -> None:
    """Ask for each name again: another run begins."""
    lookup.cache_clear()


def places(host: str, port: int) -> list[tuple[int, tuple[str | int, ...]]]:
    """Family and socket address of a port at each address of a name. Raises OSError."""
    return [(family, (address, port, *scope)) for family, (address, _, *scope) in lookup(host)]


def is_address(host: str) -> bool:
    """Return True if a host is an IP address, and not a name."""
    with contextlib.suppress(ValueError):
        ip_address(host)
        return True
    return False


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches the host; of names only `localhost` counts."""
    with contextlib.suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def listeners(host: str, port: int, system: Path = SYSTEM) -> list[int]:
    """The processes of this machine that listen at an IP address; none where it is another machine's.

    Raises LookupError with the reason where they cannot be known.
    """
    address = ip_address(host)
    own = {name: [a for a in found if a.family in _IP] for name, found in psutil.net_if_addrs().items()}
    if not address.is_loopback and address not in {_ip(a.address) for found in own.values() for a in found}:
        for name, found in own.items():
            networks = [_network(a.address, a.netmask) for a in found if a.netmask]
            if (system / "sys/class/net" / name / "bridge").exists() and any(address in each for each in networks):
                raise LookupError(f"the server is a container or a virtual machine of this machine, behind {name}")
        if (system / "proc/self/ns/pid").stat().st_ino != _FIRST_PID_NAMESPACE:
            raise LookupError("this is a container, and the server may run in another one on the same machine")
        return []
    listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    pids = {c.pid for c in listening if c.laddr and c.laddr.port == port}
    seen = sorted(pid for pid in pids if pid)
    if not seen:
        raise LookupError(f"it is not seen which process listens on port {port}: another user's, or a container's")
    for pid in seen:
        with contextlib.suppress(psutil.NoSuchProcess):
            if (name := psutil.Process(pid).name()) in FORWARDERS:
                raise LookupError(f"{name} listens on port {port} for a container, whose CPU time is not known")
    return seen


def socket_listeners(path: str) -> list[int]:
    """The processes of this machine that hold a Unix socket. Raises LookupError where none is seen."""
    pids = {c.pid for c in psutil.net_connections("unix") if str(c.laddr) == path and c.pid}
    if not pids:
        raise LookupError(f"it is not seen which process listens at {path}: another user's, or a container's")
    return sorted(pids)


def _network(address: str, netmask: str) -> IPv4Network | IPv6Network:
    """An interface's network; psutil gives IPv6 a mask too, which `ipaddress` does not read."""
    return ip_network(f"{_ip(address)}/{int(ip_address(netmask)).bit_count()}", strict=False)


def _ip(text: str) -> IPv4Address | IPv6Address:
    """An interface's address, whose scope stands behind a %."""
    return ip_address(text.partition("%")[0])
