"""Names with several addresses: the first that connects is taken, as the control plane does."""

import socket
from typing import Any

import pytest

from loadgen.transport import tcp

HERE = "127.0.0.1"


def found(*hosts: tuple[str, int]) -> Any:
    return lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in hosts]


def test_the_first_address_that_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HERE, 0)) as listening, socket.socket() as refusing:
        refusing.bind((HERE, 0))
        good, bad = listening.getsockname(), refusing.getsockname()
        for order in ((bad, good), (good, bad)):
            monkeypatch.setattr(socket, "getaddrinfo", found(*order))
            assert tcp.resolve("http://localhost").sockaddr == good
        # None: the first, so that each request says why.
        monkeypatch.setattr(socket, "getaddrinfo", found(bad, bad))
        assert tcp.resolve("http://localhost").sockaddr == bad


def test_one_address_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "_connects", lambda *_: pytest.fail("tried"))
    assert tcp.resolve("http://127.0.0.1:8000").sockaddr == (HERE, 8000)
