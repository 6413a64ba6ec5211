"""Addresses that this machine alone reaches, and the processes that listen there."""

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from servemark.machine import addresses
from servemark.machine.addresses import is_loopback, listeners


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("", False),
        ("*", False),
        ("127.0.0.1.example", False),
    ],
)
def test_loopback(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


def test_who_listens_here() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert os.getpid() in listeners("127.0.0.1", server.getsockname()[1])


def test_nobody_seen_is_not_nobody() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))  # which does not listen
        with pytest.raises(LookupError, match="not seen which process listens"):
            listeners("127.0.0.1", server.getsockname()[1])


def test_a_forwarder_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil.Process, "name", lambda _: "docker-proxy")
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(LookupError, match="for a container"):
        listeners("127.0.0.1", server.getsockname()[1])


def test_other_machines_and_those_that_only_seem_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = SimpleNamespace(family=socket.AF_INET, address="172.17.0.1", netmask="255.255.0.0")
    link = SimpleNamespace(family=socket.AF_INET6, address="fe80::1%eth0", netmask="ffff:ffff:ffff:ffff::")
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"docker0": [bridge], "eth0": [link]})
    (tmp_path / "sys/class/net/docker0/bridge").mkdir(parents=True)
    namespace = tmp_path / "proc/self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.touch()
    monkeypatch.setattr(addresses, "_FIRST_PID_NAMESPACE", namespace.stat().st_ino)
    assert listeners("192.0.2.1", 8000, tmp_path) == []
    with pytest.raises(LookupError, match="behind docker0"):
        listeners("172.17.0.2", 8000, tmp_path)
    monkeypatch.setattr(addresses, "_FIRST_PID_NAMESPACE", 0)
    with pytest.raises(LookupError, match="this is a container"):
        listeners("192.0.2.1", 8000, tmp_path)
