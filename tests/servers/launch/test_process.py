"""A process under guard: questions to it, what is run after its end, and what is said of one that has ended."""

import socket
from pathlib import Path

import pytest

from servemark.errors import ServerError
from servers.launch import process
from servers.launch.process import Command, Process, request
from tests.support.locust_run import until
from tests.support.raw_server import raw_server


def test_what_is_run_afterwards_has_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such as `docker compose down`."""
    monkeypatch.setattr(process, "GRACE_S", 0.1)
    afterwards = ["sh", "-c", f"sleep 0.5; touch {tmp_path}/removed"]
    found = Process(Command(["sh", "-c", "echo up; exec sleep 600"], afterwards=afterwards), tmp_path / "log")
    until(lambda: found.log.read_text() == "up\n", "its start")
    found.stop()
    assert (tmp_path / "removed").exists()


def test_one_that_has_ended_is_named(tmp_path: Path) -> None:
    found = Process(Command(["/bin/sh", "-c", "echo no space left; exit 7"]), tmp_path / "log")
    found._guard.wait(30)
    with pytest.raises(ServerError, match=r"^sh ended with exit status 7; its last lines:\nno space left"):
        found.check()


@pytest.mark.parametrize(("body", "method"), [(None, b"GET"), (b"", b"POST")])
def test_a_question_is_a_post_where_it_has_a_body(body: bytes | None, method: bytes) -> None:
    asked: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        asked.append(connection.recv(4096).partition(b" ")[0])
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhi")

    with raw_server(answer) as (port, _):
        assert request(f"127.0.0.1:{port}", "/a", body=body).body == b"hi"
    assert asked == [method]


def test_what_speaks_no_http_is_not_there() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"SSH-2.0\r\n")

    with raw_server(answer) as (port, _), pytest.raises(OSError, match="no HTTP server"):
        request(f"127.0.0.1:{port}", "/")
