"""Paths of requests: behind an ingress, of names in any script, and redirects."""

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from urllib.parse import quote

import numpy as np
import pytest

from loadgen.driver.connections import Connections
from loadgen.driver.event_loop import Driver
from loadgen.kserve.control import Control
from loadgen.load.arrivals import ClosedLoopArrivals
from loadgen.sut.channel import Outcome
from loadgen.targets.open import served_workload
from loadgen.targets.open import open_target
from loadgen.transport.access import NO_ACCESS
from servemark.documents.request import RunRequest
from servemark.errors import OptionError, ServerError
from servemark.workload import Tensor
from tests.support.load_config import config
from tests.support.raw_server import raw_server

TENSORS = {
    kind: [{"name": name, "datatype": "FP32", "shape": [-1, 2]}] for kind, name in (("inputs", "x"), ("outputs", "y"))
}
ANSWER = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}


@contextlib.contextmanager
def serving(base: bytes, *, in_chunks: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """A KServe v2 server of one model below `base`, which compares paths byte for byte; and the paths asked for."""
    answers = {b"/ready": {}, b"": TENSORS, b"/infer": ANSWER}
    asked: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        data = b""
        while got := connection.recv(65536):
            data += got
            head, end, rest = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            if not end or len(rest) < int(length[1] if length else 0):
                continue
            data = b""
            asked.append(head.split(b" HTTP/1.1")[0].partition(b" ")[2])
            found = answers.get(asked[-1].removeprefix(base)) if asked[-1].startswith(base) else None
            body = json.dumps(found if found is not None else {"error": "unknown"}).encode()
            status = b"200 OK" if found is not None else b"404 Not Found"
            framed = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            if in_chunks:
                framed = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            connection.sendall(b"HTTP/1.1 " + status + b"\r\n" + framed)

    with raw_server(talk) as (port, _):
        yield f"http://127.0.0.1:{port}", asked


def drive(url: str, name: str, *flags: str) -> list[Outcome]:
    """Ask a model ten times."""
    workload = served_workload(Control(url, NO_ACCESS), name, RunRequest().inputs)
    target = open_target(config(name, "--url", url, "--concurrency", "1", *flags, lookup=lambda _: workload))
    target.prepare()
    outcomes: list[Outcome] = []
    connections = Connections(target.connect, 1)
    driver = Driver(connections, target.payloads(None), timeout_s=30, on_outcome=outcomes.append)
    driver.run(ClosedLoopArrivals(1, lambda _now: len(outcomes) >= 10), lambda _: None)
    connections.close()
    return outcomes


@pytest.mark.parametrize("in_chunks", [False, True])
def test_a_server_behind_an_ingress_is_driven(in_chunks: bool) -> None:
    with serving(b"/serving/a/v2/models/m", in_chunks=in_chunks) as (url, asked):
        outcomes = drive(f"{url}/serving/a", "m")
    assert {outcome.error for outcome in outcomes} == {None}
    assert asked[-1] == b"/serving/a/v2/models/m/infer"
    assert outcomes[0].response is not None
    assert np.array_equal(outcomes[0].response.arrays([Tensor("y", "FP32", (2,))])["y"], [[1, 2]])


@pytest.mark.parametrize("name", ["модель", "naïve", "50%", 'quo"te'])
@pytest.mark.parametrize("decodes", [True, False], ids=["decoded", "as it is"])
def test_a_name_is_driven_as_its_server_reads_it(name: str, decodes: bool) -> None:
    """Triton compares the letters of a path as they come, other servers decode them."""
    base = b"/v2/models/" + (quote(name).encode() if decodes else name.encode())
    with serving(base) as (url, asked):
        outcomes = drive(url, name)
    assert {outcome.error for outcome in outcomes} == {None}
    assert asked[-1] == base + b"/infer"


def test_a_name_with_a_blank_that_no_server_knows_is_not_served() -> None:
    with serving(b"/v2/models/a b") as (url, _), pytest.raises(ServerError, match="does not serve 'a b'"):
        drive(url, "a b")


@pytest.mark.parametrize("name", ["..", "a\nb", "\udcff"])
def test_what_no_request_can_name_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="cannot name a model"):
        Control("http://127.0.0.1:9").path(name)


@pytest.mark.parametrize(
    ("location", "fix"),
    [
        ("https://other:8443/serving{path}", "--url https://other:8443/serving"),
        ("/moved{path}", "--url {url}/moved"),
        ("https://login.example/?next=x", "--url of the server that answers itself"),
    ],
)
@pytest.mark.parametrize("status", [b"301 Moved Permanently", b"307 Temporary Redirect", b"308 Permanent Redirect"])
def test_a_redirect_is_named_with_its_goal(location: str, fix: str, status: bytes) -> None:
    path = "/v2/models/m/ready"

    def moved(connection: socket.socket) -> None:
        connection.recv(65536)
        goal = location.format(path=path).encode()
        connection.sendall(b"HTTP/1.1 %s\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, goal))

    with raw_server(moved) as (port, _):
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(ServerError, match="a redirect to ") as error:
            Control(url).require_ready("m", "other", start="start")
    assert error.value.fix == fix.format(url=url)
