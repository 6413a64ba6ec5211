"""Addresses that this machine alone reaches, and the processes that listen there."""

import os
import socket
from collections.abc import Set
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from servemark.errors import OptionError
from servemark.machine import addresses
from servemark.machine.addresses import Sockets, in_path, is_loopback, listeners, named
from tests.golden.server import GoldenServer
from tests.support.proxy import proxy_to
from tests.support.raw_server import raw_server


def test_loopback() -> None:
    alone = ("127.0.0.1", "127.8.8.8", "::1", "localhost")
    reached = ("0.0.0.0", "::", "192.0.2.1", "", "*", "127.0.0.1.example")
    assert [host for host in (*alone, *reached) if is_loopback(host)] == [*alone]


def test_who_listens_here_is_told_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        with pytest.raises(LookupError, match="not seen which process listens"):
            listeners("127.0.0.1", port)  # nobody who is seen is not nobody
        server.listen()
        assert os.getpid() in listeners("127.0.0.1", port)
        monkeypatch.setattr(psutil.Process, "name", lambda _: "docker-proxy")
        with pytest.raises(LookupError, match="for a container"):
            listeners("127.0.0.1", port)


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


PROXY, WORKER, SECOND, SERVER, CHILD, OTHER, GENERATOR = 10, 11, 20, 30, 31, 40, 50
CONNECTED = {GENERATOR: {80}, WORKER: {81, 9999}, SECOND: {8000}, OTHER: {8000}, CHILD: {90}}
LISTENING = {80: {PROXY, WORKER}, 81: {SECOND}, 8000: {SERVER}, 90: {GENERATOR}, 7000: {OTHER}}
CHILDREN = {1: {PROXY, SECOND, SERVER, OTHER, GENERATOR}, PROXY: {WORKER}, SERVER: {CHILD}}


@pytest.mark.parametrize(("first", "outside", "found"), [
    ([PROXY], {GENERATOR}, [PROXY, SECOND, SERVER]),  # by its child, and through a second proxy
    ([SERVER], {GENERATOR}, [SERVER]),  # who else asks the server does not serve
    ([SERVER], set(), [SERVER, GENERATOR, PROXY, WORKER, SECOND]),
    ([1], set(), [1]),
    ([GENERATOR], {GENERATOR}, [GENERATOR]),
    ([], set(), []),
])  # fmt: skip
def test_connections_are_followed_to_who_listens_behind(first: list[int], outside: Set[int], found: list[int]) -> None:
    assert Sockets(LISTENING, CONNECTED, CHILDREN).path(first, outside) == found


def test_a_real_proxy_s_server_is_found() -> None:
    def echo(connection: socket.socket) -> None:
        while data := connection.recv(9):
            connection.sendall(data)

    with raw_server(echo) as (port, _), proxy_to(port) as proxy, proxy.connected():
        assert in_path([proxy.pid], set()) == [proxy.pid, os.getpid()]
        assert in_path([proxy.pid], {os.getpid()}) == [proxy.pid]


def test_a_container_behind_a_proxy_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sockets, "now", lambda: Sockets({}, {}, {}))
    monkeypatch.setattr(addresses, "FORWARDERS", {psutil.Process().name()})
    with pytest.raises(LookupError, match=rf"\(pid {os.getpid()}\) forwards to a container"):
        in_path([os.getpid()], set())


def test_processes_are_named_by_name_or_number(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = psutil.Process().name()
    monkeypatch.setattr("servemark.machine.addresses.generator_family", lambda _: {os.getpid()})
    with GoldenServer() as server:
        name = psutil.Process(server.pid).name()
        assert server.pid in named([name])
        # A server may be a Python, too. Whoever gives a number means it.
        assert os.getpid() not in named([name, str(server.pid)])
        assert named([str(os.getpid())]) == [os.getpid()]
        for unknown in ("no-such-process", "99999999"):
            with pytest.raises(OptionError, match=f"--server-process {unknown}: no process of this machine"):
                named([name, unknown])
    monkeypatch.setattr("servemark.machine.addresses.generator_family", lambda table: {*table})
    with pytest.raises(OptionError, match="no process of this machine"):
        named([ours])
