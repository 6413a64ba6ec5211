"""Addresses: those of a name, whether they are reached from elsewhere, and which processes listen there and behind."""

import _socket
import contextlib
import functools
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

import psutil

from servemark.errors import OptionError
from servemark.machine.limits import SYSTEM
from servemark.machine.processes import children, generator_family, processes

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of the namespace that sees every process: PROC_PID_INIT_INO, linux/proc_ns.h."""
_IP = (socket.AF_INET, socket.AF_INET6)
FORWARDERS = frozenset({"docker-proxy", "rootlessport", "slirp4netns", "pasta"})
"""They listen for a container whose processes they are not."""

_NAME_CHARACTERS = 15
"""As many of a process's name are kept by Linux."""
_INIT = 1
"""It listens for services that it has not started yet, and every process descends from it."""


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
    if not address.is_loopback and address not in _own_addresses():
        own = {name: [a for a in found if a.family in _IP] for name, found in psutil.net_if_addrs().items()}
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


@dataclass(frozen=True)
class Sockets:
    """The processes that listen on this machine, and those that are connected to them."""

    listening: Mapping[int, Set[int]]
    """Port -> processes."""
    connected: Mapping[int, Set[int]]
    """Process -> ports of this machine."""
    children: Mapping[int, Collection[int]]

    @classmethod
    def now(cls) -> "Sockets":
        """Read them. Another user's processes may not be seen."""
        listening: dict[int, set[int]] = {}
        connected: dict[int, set[int]] = {}
        own = _own_addresses()
        for each in psutil.net_connections("tcp"):
            if each.pid and each.status == psutil.CONN_LISTEN and each.laddr:
                listening.setdefault(each.laddr.port, set()).add(each.pid)
            elif each.pid and each.raddr:
                address = _ip(each.raddr.ip)
                mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
                if (mapped or address).is_loopback or (mapped or address) in own:
                    connected.setdefault(each.pid, set()).add(each.raddr.port)
        return cls(listening, connected, children(processes()))

    def path(self, first: Iterable[int], outside: Set[int]) -> list[int]:
        """Return the first processes and those behind them: what they, or their children, are connected to.

        A proxy may stand before a proxy. Processes `outside` send the requests.
        """
        found = dict.fromkeys(first)
        left, seen = [*found], {*outside, _INIT}
        while left:
            pid = left.pop()
            if pid in seen:
                continue
            seen.add(pid)
            behind = {other for port in self.connected.get(pid, ()) for other in self.listening.get(port, ())} - seen
            found |= dict.fromkeys(sorted(behind))
            left += [*behind, *self.children.get(pid, ())]
        return [*found]


def in_path(first: Iterable[int], outside: Set[int]) -> list[int]:
    """Return the processes of this machine in the path of the requests that `first` take.

    Raises LookupError where one of them stands for a container.
    """
    first = [*first]
    if not first:
        return []
    found = Sockets.now().path(first, outside)
    for pid in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            if (name := psutil.Process(pid).name()) in FORWARDERS:
                raise LookupError(f"{name} (pid {pid}) forwards to a container, whose CPU time is not known")
    return found


def named(wanted: Sequence[str]) -> list[int]:
    """Return the processes of these names or numbers. Raises OptionError for one that this machine has not.

    The generator's own are not meant by a name: a server may be a Python as well.
    """
    table = processes()
    ours = generator_family(table) if wanted else set()
    found: list[int] = []
    for each in wanted:
        shown = each[:_NAME_CHARACTERS]
        pids = [p for p, process in table.items() if each == str(p) or (shown == process.name and p not in ours)]
        if not pids:
            raise OptionError(
                f"--server-process {each}: no process of this machine has this name or number",
                fix="`ps -e` lists both; a process on another machine takes nothing from this one",
            )
        found += pids
    return found


def _own_addresses() -> set[IPv4Address | IPv6Address]:
    """Return the addresses of this machine's interfaces."""
    return {_ip(each.address) for found in psutil.net_if_addrs().values() for each in found if each.family in _IP}


def _network(address: str, netmask: str) -> IPv4Network | IPv6Network:
    """An interface's network; psutil gives IPv6 a mask too, which `ipaddress` does not read."""
    return ip_network(f"{_ip(address)}/{int(ip_address(netmask)).bit_count()}", strict=False)


def _ip(text: str) -> IPv4Address | IPv6Address:
    """An interface's address, whose scope stands behind a %."""
    return ip_address(text.partition("%")[0])
