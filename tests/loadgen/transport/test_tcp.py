"""The socket below a channel: names with several addresses, stamps of the kernel, and Unix sockets."""

import _socket
import itertools
import select
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from loadgen.kserve.http_connection import Connection
from loadgen.kserve.http_messages import ResponseChecker
from loadgen.sut.channel import State
from loadgen.sut.kernel_clock import KernelClock
from loadgen.targets.open import open_target
from loadgen.transport import tcp
from loadgen.transport.tcp import ERROR_ROOM, Address, TcpChannel
from servemark.errors import ServerError
from servemark.machine import addresses
from servemark.telemetry.energy.meter import UnavailableError
from servemark.telemetry.http_request import ask
from servemark.telemetry.run import scrape
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import TargetLoad, constant_ns, target_at
from tests.golden.server import GoldenServer
from tests.support.load_config import config

HERE = "127.0.0.1"
ELSEWHERE = "127.0.0.2"


@pytest.fixture(autouse=True)
def _names_are_new() -> Iterator[None]:
    addresses.forget()
    yield
    addresses.forget()


def found(*hosts: str) -> Any:
    return lambda *_: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in hosts]


def test_the_first_address_that_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HERE, 0)) as listening:
        port = listening.getsockname()[1]
        for order in ((ELSEWHERE, HERE), (HERE, ELSEWHERE)):
            addresses.forget()
            monkeypatch.setattr(_socket, "getaddrinfo", found(*order))
            assert tcp.resolve(f"http://somewhere:{port}").sockaddr == (HERE, port)
    # None: the first, so that each request says why.
    assert tcp.resolve(f"http://somewhere:{port}").sockaddr == (HERE, port)


def test_a_name_that_changes_its_address_leads_nowhere_else_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load, questions and metrics would mix two servers, and headers with secrets reach a second one."""
    turns = itertools.cycle((HERE, ELSEWHERE))
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *_: found(next(turns))())
    with GoldenServer() as server, socket.create_server((ELSEWHERE, server.port)) as other:
        other.settimeout(0.1)
        url = f"http://somewhere:{server.port}"
        for _ in range(2):
            assert tcp.resolve(url).sockaddr == (HERE, server.port)
            assert ask(f"somewhere:{server.port}", "/v2", timeout_s=5).status == 200
            with pytest.raises(UnavailableError, match="answered 404"):
                scrape(f"{url}/metrics", "golden")
        with pytest.raises(TimeoutError):
            other.accept()
        # The next run asks anew.
        open_target(config("ranking_tiny", "--url", url))
        assert tcp.resolve(url).sockaddr == (ELSEWHERE, server.port)


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "a..b", "\udcff"])
def test_what_cannot_be_a_name_is_an_error_of_the_server(host: str) -> None:
    with pytest.raises(ServerError, match="cannot be the name of a host"):
        tcp.resolve(f"http://{host}:80")


def test_one_address_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "_connects", lambda *_: pytest.fail("tried"))
    assert tcp.resolve("http://127.0.0.1:8000").sockaddr == (HERE, 8000)


@contextmanager
def linked(clock: KernelClock) -> Iterator[tuple[TcpChannel, socket.socket]]:
    """Connect a channel to a peer."""
    with socket.create_server((HERE, 0)) as listening:
        channel = Connection(Address(socket.AF_INET, listening.getsockname(), clock=clock), ResponseChecker((), 0))
        channel.open()
        with closing(channel), listening.accept()[0] as peer:
            select.select([], [channel.fd], [], 5)
            channel.connected()
            yield channel, peer


def take_stamps(channel: TcpChannel) -> None:
    """Wait until the error queue has a stamp, and take what it has."""
    select.select([channel.fd], [], [], 5)
    assert channel._receive() is None


def test_an_answer_came_before_it_was_read() -> None:
    """It lay in the socket for 50 ms: the kernel's stamp is that of its coming, the process's of the reading."""
    came = {}
    for asked in (True, False):
        clock = KernelClock(asked=asked)
        with linked(clock) as (channel, peer):
            for _ in range(2):  # the first packets of a machine may be without a stamp: it turns stamping on meanwhile
                channel.sent = time.monotonic_ns()
                peer.sendall(b"answer")
                written = time.monotonic_ns()
                time.sleep(0.05)
                select.select([channel.fd], [], [], 5)
                assert channel._receive() == b"answer"
            came[asked] = (channel.came - written) / 1e6
        assert (clock.missing == 2) is not asked
    assert came[True] < 25
    assert came[False] >= 50


def test_the_kernels_time_of_sending_is_taken_from_the_error_queue() -> None:
    clock = KernelClock()
    with linked(clock) as (channel, peer):
        begin = time.monotonic_ns()
        for _ in range(3):
            channel.stamp_next_request()
            channel.state, channel.sent = State.BUSY, time.monotonic_ns()
            channel._socket.send(b"request")
            select.select([channel.fd], [], [], 5)  # readable: the error queue has the stamp
            assert channel._receive() is None
            assert peer.recv(100) == b"request"
        channel.state, channel.sent = State.BUSY, time.monotonic_ns()
        channel._socket.send(b"request")  # which is not chosen
        assert channel._receive() is None
        clock.flush(begin, time.monotonic_ns())
    assert clock.send_error.count == 3
    assert clock.send_error.percentile(50) < 25


def test_the_stamps_of_what_was_sent_before_the_request_are_passed_over() -> None:
    """Over HTTP/2 a client sends settings, acknowledgements and window updates too, each of which may be stamped."""
    clock = KernelClock()
    with linked(clock) as (channel, _):
        begin = time.monotonic_ns()
        channel.stamp_next_request()
        for _ in range(5):
            channel._socket.send(b"window update")
        time.sleep(0.001)
        channel.state, channel.sent = State.BUSY, time.monotonic_ns()
        channel._socket.send(b"request")
        take_stamps(channel)
        clock.flush(begin, time.monotonic_ns())
    assert clock.send_error.count == 1


def test_what_is_sent_for_the_answer_under_way_is_not_the_next_requests_sending() -> None:
    clock = KernelClock()
    with linked(clock) as (channel, _):
        begin = time.monotonic_ns()
        channel.state, channel.sent = State.BUSY, time.monotonic_ns()
        channel.stamp_next_request()
        channel._socket.send(b"window update")
        take_stamps(channel)
        clock.flush(begin, time.monotonic_ns())
        assert clock.send_error.count == 0
        channel.sent = time.monotonic_ns()
        channel._socket.send(b"request")
        take_stamps(channel)
        clock.flush(begin, time.monotonic_ns())
    assert clock.send_error.count == 1


def test_no_stamp_is_left_that_would_wake_the_loop_for_ever() -> None:
    """A request that is sent in parts has a stamp of each: one is enough, and the others come after it."""
    clock = KernelClock()
    with linked(clock) as (channel, _):
        channel.stamp_next_request()
        channel.state, channel.sent = State.BUSY, time.monotonic_ns()
        for part in (b"request", b"its second part", b"its third part"):
            channel._socket.send(part)
        select.select([channel.fd], [], [], 5)
        time.sleep(0.001)
        assert channel._receive() is None
        poll = select.poll()
        poll.register(channel.fd, select.POLLIN)
        assert poll.poll(0) == []


def test_what_is_sent_after_stamping_was_ended_is_not_copied_into_the_error_queue() -> None:
    """Copies of what was sent take the place of answers, until the server may send no more of them."""
    sent, taken, copies = 0, 0, []
    with linked(KernelClock()) as (channel, peer):
        channel.stamp_next_request()
        with suppress(BlockingIOError):
            while True:  # until the peer, which does not read, takes no more: the rest is under way
                sent += channel._socket.send(bytes(1 << 20))
        assert channel._socket.ask_for_stamps()
        while taken < sent:
            taken += len(peer.recv(1 << 20))
        with suppress(BlockingIOError):
            while True:
                copies.append(channel._socket.recvmsg(100, ERROR_ROOM, socket.MSG_ERRQUEUE)[0])
    assert set(copies) == {b""}


@pytest.mark.parametrize(("golden", "protocol"), [(GoldenServer, "http"), (GoldenGrpc, "grpc")])
@pytest.mark.parametrize("flags", [(), ("--no-connection-reuse",)])
def test_a_load_goes_to_a_socket(golden: Any, protocol: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "s"
    with golden(unix=str(path)) as server:
        target = target_at(f"unix:{path}", "--protocol", protocol, *flags)
        assert (target.protocol, target.local, target.processes()) == (protocol, True, [server.pid])
        assert target.config["url"] == f"{protocol}+unix:{path}"
        load = TargetLoad(target).open(constant_ns(400, 40))
        received = server.log()["requests"]
    assert load.kinds == {"ok": 40}
    assert target.clock is not None
    assert target.clock.missing >= 40  # Unix sockets have no stamps
    assert (received if isinstance(received, int) else len(received)) == 40


def test_a_server_that_is_gone_refuses_each_request(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with GoldenServer(unix=str(path)) as server:
        target = target_at(f"unix:{path}")
        first, second = TargetLoad(target), TargetLoad(target)
        server.kill()
        assert first.open(constant_ns(100, 5)).kinds == {"connection_refused": 5}
        path.unlink()
        assert second.open(constant_ns(100, 5)).kinds == {"connection_refused": 5}
        with pytest.raises(ServerError, match=f"no server answers at http.unix:{path}"):
            target.prepare()
