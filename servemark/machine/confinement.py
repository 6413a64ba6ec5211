"""Confine this process for good: files are read and written in named places alone, and there is no network.

Landlock (Linux, Documentation/userspace-api/landlock.rst) closes files since 5.13 and TCP since 6.7; a network
namespace (network_namespaces(7)) of its own closes all protocols, where the system lets this user have one.
Both are for good, and for this thread and what it starts: they come before there are other threads.
"""

import contextlib
import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_EXECUTE, _WRITE, _READ, _LIST = (1 << bit for bit in range(4))
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_HANDLED = (13, 14, 15, 15, 16)
"""Number of the rights on files that versions 1 to 5 of Landlock know."""
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_TCP, _SCOPES = 3, 3
"""Binding and connecting; abstract sockets of others, and signals to them."""

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/opt", "/proc", "/sys", "/nix/store", "/gnu/store")
"""Folders of libraries and facts of the machine."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def interpreter() -> list[Path]:
    """Return the folders of Python and its imports."""
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [Path(each) for each in (sys.prefix, sys.base_prefix, *sys.path, *libraries) if each]


def limit(memory_bytes: int) -> None:
    """Limit the memory that this process may allocate, and prevent a core file."""
    for kind, most in ((resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))


def close_network() -> bool:
    """Take a network namespace with nothing in it, inside a user namespace where need be; whether that was granted."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_NETWORK) == 0:
        return True
    if libc.unshare(_NEW_NETWORK | _NEW_USER) != 0:
        return False
    with contextlib.suppress(OSError):  # Ubuntu 24.04 grants the namespace, and refuses its map: it holds without one
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text)
    return True


def close_files(read: Iterable[Path], write: Iterable[Path]) -> bool:
    """Leave the system's files and `read` to be read, and `write` to be written too; whether the kernel has Landlock.

    TCP is closed as well where the kernel can. A second call leaves what both allow.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    if version < 1:
        return False
    handled = (1 << _HANDLED[min(version, len(_HANDLED)) - 1]) - 1
    # each version of the structure has one word more
    attributes = struct.pack("QQQ", handled, _TCP, _SCOPES)[: 8 if version < 4 else 16 if version < 6 else 24]
    rules = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    try:
        for path in (*map(Path, SYSTEM), *read):
            _allow(libc, rules, path, _EXECUTE | _READ | _LIST)
        for path in (*map(Path, DEVICES), *write):
            _allow(libc, rules, path, handled)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    """Add a rule; what is not there needs none."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = struct.pack("=Qi", rights if path.is_dir() else rights & _OF_FILES, place)
        if libc.syscall(_ADD_RULE, rules, _BENEATH, rule, 0) != 0:
            raise OSError(ctypes.get_errno(), f"Landlock takes no rule for {path}")
    finally:
        os.close(place)
