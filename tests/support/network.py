"""Hosts for a distributed run: network namespaces of their own where the system allows it, else this one."""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Host:
    """A place where commands run: what comes before them there, and the master's address as it is seen from it."""

    prefix: tuple[str, ...] = ()
    master: str = "127.0.0.1"


@dataclass
class Network:
    """The master's host, on which the server runs too, and one for each worker; `reason` says why they are all one."""

    hosts: list[Host] = field(default_factory=list)
    centre: Host = Host()
    server: str = "127.0.0.1"
    reason: str | None = None


@contextlib.contextmanager
def network(workers: int) -> Iterator[Network]:
    """Hosts that reach each other over veth pairs only, gone at the end of the block."""
    with contextlib.ExitStack() as stack:
        try:
            found = _separate(workers, stack)
        except (OSError, subprocess.SubprocessError, TimeoutError) as error:
            stderr = getattr(error, "stderr", None) or str(error)
            found = Network([Host()] * workers, reason=f"no network namespaces here: {stderr.strip()}")
        yield found


def _separate(workers: int, stack: contextlib.ExitStack) -> Network:
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        raise OSError(f"{missing[0]} is not installed")
    centre = _namespace(["unshare", "--user", "--map-root-user", "--net"], stack)
    _run([*centre, "ip", "link", "set", "lo", "up"])
    hosts = []
    for number in range(1, workers + 1):
        host = _namespace([*centre, "unshare", "--net"], stack)
        pid = host[1].rpartition("=")[2]
        near, far = f"10.97.{number}.1", f"10.97.{number}.2"
        _run([*centre, "ip", "link", "add", f"w{number}", "type", "veth", "peer", "name", "eth0", "netns", pid])
        _run([*centre, "ip", "address", "add", f"{near}/24", "dev", f"w{number}"])
        _run([*centre, "ip", "link", "set", f"w{number}", "up"])
        _run([*host, "ip", "address", "add", f"{far}/24", "dev", "eth0"])
        _run([*host, "ip", "link", "set", "eth0", "up"])
        _run([*host, "ip", "link", "set", "lo", "up"])
        _run([*host, "ip", "route", "add", "default", "via", near])
        hosts.append(Host(host, near))
    return Network(hosts, Host(centre), server="10.97.1.1")


def _namespace(command: Sequence[str], stack: contextlib.ExitStack) -> tuple[str, ...]:
    """Start a process that holds a new namespace; returns what comes before a command that is to run in it."""
    # nsenter and unshare become the command: the process is the namespace's.
    holder = subprocess.Popen([*command, "sleep", "600"], stderr=subprocess.DEVNULL)
    stack.callback(holder.wait)
    stack.callback(holder.kill)
    name = Path(f"/proc/{holder.pid}/comm")
    deadline = time.monotonic() + TIMEOUT_S
    while holder.poll() is None and time.monotonic() < deadline:
        if name.read_text().strip() == "sleep":
            return ("nsenter", f"--target={holder.pid}", "--user", "--net", "--preserve-credentials")
        time.sleep(0.01)
    raise OSError(f"`{' '.join(command)}` is not allowed")


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
