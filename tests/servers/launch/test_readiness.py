"""Questions to a server that starts, and Triton's reasons for a model that it does not load, with what to do."""

import socket

import pytest

from servers.launch.readiness import load_failure, request
from tests.support.raw_server import raw_server

NO_GPU = (
    "Invalid argument: instance group m_0 of model m specifies invalid or unsupported gpu id 3. GPUs with at least the "
    "minimum required CUDA compute compatibility of 6.000000 are: "
)


@pytest.mark.parametrize(
    ("reason", "what", "fix"),
    [
        (
            "Internal: ValueError: no such file\n\nAt:\n  model.py(7): <module>",
            "Internal: ValueError: no such file",
            None,
        ),
        (
            "Internal: ServerError: torch is missing\n  fix: install it",
            "Internal: ServerError: torch is missing",
            "install it",
        ),
        (NO_GPU, "it is to run on GPU 3, and Triton sees no such GPU here", "name a GPU that `servemark doctor` shows"),
    ],
)
def test_a_reason_is_what_went_wrong_and_its_fix(reason: str, what: str, fix: str | None) -> None:
    error = load_failure("m", reason)
    assert error.what == f"Triton cannot load m: {what}"
    assert (error.fix or "").startswith(fix or "")
    assert (error.fix is None) == (fix is None)


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
