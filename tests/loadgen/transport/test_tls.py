"""TLS on the data path and the control plane: answers, counts, refusals, and secrets; Triton and a talkative peer."""

import contextlib
import dataclasses
import select
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hyperframe.frame import SettingsFrame, WindowUpdateFrame

from loadgen.kserve.control import Control
from loadgen.kserve.grpc_control import GrpcControl
from loadgen.sut.channel import READ, State
from loadgen.transport.access import Access
from servemark.errors import OptionError, ServerError
from servers.launch.process import Command
from servers.launch.server import Server as TritonServer
from servers.launch.server import ServerJob
from servers.modes import embedded
from tests.golden.behaviour import Behaviour
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import Load, constant_ns, tensor
from tests.golden.server import GoldenServer
from tests.support.any_workload import any_workload
from tests.support.certificates import Authority, needs_openssl
from tests.support.grpc_load import GrpcLoad
from tests.support.http2_peer import PREFACE, Peer, answer
from tests.support.load_config import config, request_of
from tests.support.raw_server import raw_server
from tests.support.triton import copy_identity, needs_triton

pytestmark = needs_openssl

VALUE = "s3cret-t0ken"
AUTHORIZATION = f"Bearer {VALUE}"
HEADERS = (("authorization", AUTHORIZATION),)
LARGE = 150_000  # 600 kB of FP32
WINDOW = 1 << 30
IDENTITY = any_workload([tensor(64, "INPUT0")], [tensor(64)], served=False)
TIMEOUT_S = 30.0  # of requests that are all answered: a machine that stands still for a while must not matter


@pytest.fixture(scope="module")
def access(authority: Authority) -> Access:
    return Access(authority.certificate)


PROTOCOLS = ["http", "grpc", "streaming"]
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
Server = GoldenServer | GoldenGrpc


def serve(protocol: str, certificate: str = "", width: int = 64, authorization: str = "") -> Server:
    if protocol == "http":
        inputs, outputs = (f"INPUT0:FP32:{width}",), (f"OUTPUT0:FP32:{width}",)
        return GoldenServer(certificate=certificate, authorization=authorization, inputs=inputs, outputs=outputs)
    return GoldenGrpc(certificate=certificate, authorization=authorization, width=width)


def load_on(protocol: str, server: Server, access: Access, width: int = 64, timeout_s: float = TIMEOUT_S) -> Load:
    if protocol == "http":
        return Load(server.port, width=width, access=access, timeout_s=timeout_s)
    streaming = protocol == "streaming"
    return GrpcLoad(server.port, width=width, access=access, timeout_s=timeout_s, streaming=streaming)


def received(server: Server) -> int:
    found = server.log()["requests"]
    return len(found) if isinstance(found, list) else found


@protocols
def test_large_requests_and_answers_are_whole(protocol: str, certificate: str, access: Access) -> None:
    with serve(protocol, certificate, LARGE) as server:
        load = load_on(protocol, server, access, LARGE).open(constant_ns(50, 20))
        assert received(server) == 20
    assert load.kinds == {"ok": 20}
    for outcome in load.outcomes:
        assert outcome.response is not None
        [array] = outcome.response.arrays([tensor(LARGE)]).values()
        # The tensor is the last part of a request on either protocol, and comes back as it was.
        assert outcome.payload.request.endswith(array.tobytes())


@protocols
def test_a_closed_loop_counts_each_request_once(protocol: str, certificate: str, access: Access) -> None:
    with serve(protocol, certificate) as server:
        load = load_on(protocol, server, access)
        load.connect = 8
        assert load.closed(8, 0.5).kinds == {"ok": received(server)}
    # The kernel timed all but the first ones: it turns stamping on when the first socket asks for it.
    assert load.clock.missing + load.clock.refused < 0.1 * len(load.outcomes)
    assert all(outcome.sent <= outcome.done for outcome in load.outcomes)
    load.clock.flush(load.started_ns, load.outcomes[-1].done)
    assert load.clock.send_error.count > 10


def test_one_handshake_serves_all_requests_of_a_connection(certificate: str, access: Access) -> None:
    with GoldenServer(certificate=certificate) as server:
        load = load_on("http", server, access)
        load.max_in_flight = 1
        assert load.open(constant_ns(1000, 30)).kinds == {"ok": 30}
        assert len({entry["connection"] for entry in server.requests()}) == 1


def test_failures_are_those_of_plain_http(certificate: str, access: Access) -> None:
    behaviour = Behaviour(
        certificate=certificate, error_every=7, reset_every=11, truncate_every=13, wrong_shape_every=5, slow_every=3
    )
    names = {"error": "http_500", "reset": "connection_reset", "truncate": "connection_closed", "slow": "ok"}
    expected = [behaviour.kind(number) for number in range(1, 61)]
    with GoldenServer(**vars(behaviour)) as server:
        load = load_on("http", server, access).open(constant_ns(100, 60))
    assert load.kinds == Counter(names.get(kind, kind) for kind in expected)


def test_session_tickets_do_not_end_an_idle_connection(certificate: str, access: Access) -> None:
    with GoldenServer(certificate=certificate) as server:
        channel = load_on("http", server, access).channels()()
        channel.open()
        poller = select.poll()
        while channel.state is State.CONNECTING:
            poller.register(channel.fd, channel.wants)
            assert poller.poll(TIMEOUT_S * 1000)
            channel.connected()
        # The server sends them once it has the client's last part of the handshake (TLS 1.3).
        poller.register(channel.fd, READ)
        assert poller.poll(TIMEOUT_S * 1000)
        assert channel.on_unsolicited_data()
        channel.close()


@protocols
def test_a_certificate_is_not_verified_only_where_that_is_asked_for(protocol: str, certificate: str) -> None:
    with serve(protocol, certificate) as server:
        access = Access(insecure=True)
        assert load_on(protocol, server, access).open(constant_ns(100, 5)).kinds == {"ok": 5}
        described = access.tls(server.url)
        assert described is not None
        assert described["unverified"]
    request = request_of("ranking", "--url", "http://h:1", "--tls-insecure")
    with pytest.raises(OptionError, match="--tls-insecure"):
        Access.of(request.server, request.server.url)


@protocols
def test_a_ca_that_is_not_trusted(protocol: str, certificate: str) -> None:
    with serve(protocol, certificate) as server:
        load = load_on(protocol, server, Access()).open(constant_ns(100, 5))
        assert received(server) == 0
    assert load.kinds == {"tls_error": 5}
    assert {o.message for o in load.outcomes} == {"certificate verify failed: unable to get local issuer certificate"}
    assert all(outcome.sent == 0 for outcome in load.outcomes)


@protocols
def test_a_certificate_for_another_host(protocol: str, authority: Authority, access: Access) -> None:
    with serve(protocol, str(authority.issue(f"other_{protocol}", "DNS:localhost,IP:127.0.0.2"))) as server:
        load = load_on(protocol, server, access).open(constant_ns(100, 5))
    assert load.kinds == {"tls_error": 5}
    assert "certificate verify failed: IP address mismatch" in load.outcomes[0].message


NEARLY = {
    "any name": ("DNS:*", "127.0.0.1"),
    "an address as a name": ("DNS:127.0.0.1", "127.0.0.1"),
    "no names": ("email:a@b.example", "127.0.0.1"),
    "a level below": ("DNS:*.localhost", "localhost"),
    "the beginning": ("DNS:loc*", "localhost"),
    "a longer name": ("DNS:localhost.evil.example", "localhost"),
    "a link": ("URI:https://localhost", "localhost"),
    "the address in short": ("IP:127.0.0.1", "127.1"),
}


@pytest.mark.parametrize(("names", "host"), NEARLY.values(), ids=NEARLY)
def test_names_that_nearly_fit_are_refused(names: str, host: str, authority: Authority, access: Access) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.issue("nearly", names))

    def handle(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
            pass

    with raw_server(handle) as (port, _), pytest.raises(ServerError, match="certificate verify failed: "):
        access.agreed(f"https://{host}:{port}", {"ca": "", "client_certificate": True})


@protocols
def test_a_server_without_tls(protocol: str, access: Access) -> None:
    with serve(protocol) as server:
        load = load_on(protocol, server, access).open(constant_ns(100, 5))
    assert load.kinds.keys() <= {"tls_error", "connection_reset"}
    assert load.kinds.total() == 5
    assert {o.message for o in load.outcomes if o.error == "tls_error"} <= {
        "the server does not speak TLS here",
        "the server closed the connection in the TLS handshake",
    }


def test_grpc_to_a_server_that_speaks_http_1(certificate: str, access: Access) -> None:
    with GoldenServer(certificate=certificate) as server:
        load = load_on("grpc", server, access).open(constant_ns(100, 5))
    assert load.kinds == {"tls_error": 5}
    assert "does not choose HTTP/2 (ALPN h2)" in load.outcomes[0].message


def test_mutual_tls(authority: Authority, certificate: str, access: Access) -> None:
    own = dataclasses.replace(access, certificate=authority.issue("client"))
    with GoldenServer(certificate=certificate, client_ca=str(authority.certificate)) as server:
        assert load_on("http", server, own).open(constant_ns(100, 5)).kinds == {"ok": 5}
        refused = load_on("http", server, access).open(constant_ns(100, 5)).kinds
        assert len(server.requests()) == 5
    # The server judges it when the client's part of the handshake is over (TLS 1.3).
    assert refused.total() == 5
    assert refused.keys() <= {"tls_error", "connection_closed", "connection_reset"}


@protocols
def test_a_field_goes_with_every_request(protocol: str, certificate: str, access: Access) -> None:
    with serve(protocol, certificate, authorization=AUTHORIZATION) as server:
        let_in = load_on(protocol, server, dataclasses.replace(access, headers=HEADERS)).open(constant_ns(100, 10))
        assert received(server) == 10
        kept_out = load_on(protocol, server, access).open(constant_ns(100, 10))
        assert received(server) == 10
    assert let_in.kinds == {"ok": 10}
    assert kept_out.kinds == {"http_401" if protocol == "http" else "grpc_unauthenticated": 10}
    response = kept_out.outcomes[0].response
    assert response is not None
    assert "golden refusal of ''" in response.message()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_control_plane(protocol: str, certificate: str, access: Access) -> None:
    kind = Control if protocol == "http" else GrpcControl
    wrong = (("authorization", "Bearer wr0ng-t0ken"),)

    def ask(with_: Access) -> None:
        kind(server.url, with_).require_model("golden", IDENTITY, "servemark serve x")

    with serve(protocol, certificate, authorization=AUTHORIZATION) as server:
        ask(dataclasses.replace(access, headers=HEADERS))
        with pytest.raises(ServerError, match=r"does not let us in: .*golden refusal of '<authorization>'") as refused:
            ask(dataclasses.replace(access, headers=wrong))
        with pytest.raises(ServerError, match=r"no TLS with .*certificate verify failed: unable to get") as unknown:
            ask(Access(headers=HEADERS))
    assert "wr0ng" not in str(refused.value)
    assert "--headers FILE" in str(refused.value.fix)
    assert "--tls-ca FILE" in str(unknown.value.fix)
    with serve(protocol) as server, pytest.raises(ServerError, match="no TLS with "):
        kind(server.url.replace("://", "s://"), access).require_model("golden", IDENTITY, "")


@contextlib.contextmanager
def refused(words: str) -> Iterator[None]:
    with pytest.raises(OptionError) as error:
        yield
    assert words in str(error.value)


def test_options(authority: Authority, tmp_path: Path) -> None:
    ca, client = str(authority.certificate), authority.issue("options")
    found = config("ranking_tiny", "--url", "https://somewhere:9/", "--tls-ca", ca, "--client-cert", str(client))
    assert (found.url, found.protocol) == ("https://somewhere:9", "http")
    assert found.access.tls(found.url) == {"ca": ca, "client_certificate": True}
    found = config("ranking_tiny", "--url", "grpcs://somewhere:9", "--protocol", "grpc", "--streaming")
    assert (found.url, found.protocol) == ("grpcs://somewhere:9", "grpc")
    assert found.access.context(found.url).verify_mode is ssl.CERT_REQUIRED
    assert found.access.context(found.url).check_hostname
    (tmp_path / "no.pem").write_text("no certificate\n")
    for flags, words in (
        (("--url", "http://h:1", "--tls-ca", ca), "--tls-ca is for a server over TLS, not http://h:1"),
        (("--url", "https://h:1", "--client-key", ca), "--client-key without its certificate"),
        (("--url", "https://h:1", "--tls-ca", str(tmp_path / "none")), "No such file"),
        (("--url", "https://h:1", "--tls-ca", str(tmp_path / "no.pem")), "--tls-ca"),
        (("--url", "https://h:1", "--client-cert", str(tmp_path / "no.pem")), "--client-cert"),
        (("--url", "https://h:1", "--protocol", "grpc"), "is not for --protocol grpc"),
        (("--url", "grpcs://h:1", "--protocol", "http"), "is not for --protocol http"),
    ):
        with refused(words):
            config("ranking_tiny", *flags)
    with pytest.raises(OptionError, match="holds a user or a password") as error:
        config("ranking_tiny", "--url", f"https://me:{VALUE}@h:1")
    assert VALUE not in str(error.value)


class TlsEnd:
    """The server's end of a connection, as a socket; TLS 1.2, whose handshake the server ends.

    The last of the handshake goes out with what is sent first, in one piece.
    """

    def __init__(self, connection: socket.socket, certificate: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate)
        context.set_alpn_protocols(["h2"])
        self.connection = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.wait(self.tls.do_handshake)

    def wait(self, action: Any, *arguments: Any) -> Any:
        while True:
            try:
                return action(*arguments)
            except ssl.SSLWantReadError:
                self.connection.sendall(self.outgoing.read())
                if not (data := self.connection.recv(1 << 16)):
                    raise EOFError from None
                self.incoming.write(data)

    def recv(self, most: int) -> bytes:
        return bytes(self.wait(self.tls.read, most))

    def sendall(self, data: bytes) -> None:
        self.tls.write(data)
        self.connection.sendall(self.outgoing.read())


def test_settings_that_come_with_the_end_of_the_handshake(authority: Authority, certificate: str) -> None:
    def handle(connection: socket.socket) -> None:
        end: Any = TlsEnd(connection, certificate)
        peer = Peer(end)
        try:
            # The whole window is open from the start, and never opened again.
            settings = SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: WINDOW})
            peer.send(settings, WindowUpdateFrame(0, window_increment=WINDOW))
            assert peer.read(len(PREFACE)) == PREFACE
            while True:
                peer.send(*peer.whole(peer.request(), answer()))
        except (EOFError, ConnectionError):
            pass

    with raw_server(handle) as (port, accepted):
        access = Access(authority.certificate)
        load = GrpcLoad(port, width=64, batch=1, access=access, timeout_s=TIMEOUT_S)
        load.requests = GrpcLoad(port, width=LARGE, access=access).payloads()
        assert load.closed(1, 0.2).kinds.keys() == {"ok"}
        assert accepted == [1]


@needs_triton
def test_triton_with_mutual_tls(authority: Authority, tmp_path: Path) -> None:
    copy_identity(tmp_path)
    pem = authority.issue("triton")

    def command(job: ServerJob) -> Command:
        plan = embedded.command(job)
        tls = ["--grpc-use-ssl-mutual=true", f"--grpc-server-cert={pem}", f"--grpc-server-key={pem}"]
        return dataclasses.replace(plan, argv=[*plan.argv, *tls, f"--grpc-root-cert={authority.certificate}"])

    access = Access(authority.certificate, authority.issue("triton_client"))
    with TritonServer("embedded", command, ServerJob(tmp_path, ["identity"])) as server:
        port = int(server.grpc.rpartition(":")[2])
        for streaming in (False, True):
            load = GrpcLoad(port, access=access, timeout_s=TIMEOUT_S, model="identity", streaming=streaming, connect=4)
            assert load.open(constant_ns(100, 50)).kinds == {"ok": 50}
        statistics = GrpcControl(f"grpcs://{server.grpc}", access).statistics("identity")
        assert statistics is not None
        assert statistics["inference_stats"]["success"]["count"] == 100
        unknown = GrpcLoad(port, access=Access(authority.certificate), timeout_s=TIMEOUT_S, model="identity")
        refused = unknown.open(constant_ns(100, 3)).kinds
    assert refused.total() == 3
    assert refused.keys() <= {"tls_error", "connection_closed", "connection_reset"}
