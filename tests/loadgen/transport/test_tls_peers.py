"""gRPC over TLS against servers that are none of ours: Triton itself, and one that says more than its handshake."""

import dataclasses
import socket
import ssl
from pathlib import Path
from typing import Any

from hyperframe.frame import SettingsFrame, WindowUpdateFrame

from loadgen.kserve.grpc_control import GrpcControl
from loadgen.transport.access import Access
from servers.launch.process import Command
from servers.launch.server import Server, ServerJob
from servers.modes import embedded
from tests.golden.load import constant_ns
from tests.support.certificates import Authority, needs_openssl
from tests.support.grpc_load import GrpcLoad
from tests.support.http2_peer import PREFACE, Peer, answer
from tests.support.raw_server import raw_server
from tests.support.triton import copy_identity, needs_triton

pytestmark = needs_openssl

LARGE = 150_000  # 600 kB of FP32
WINDOW = 1 << 30
TIMEOUT_S = 30.0


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
    with Server("embedded", command, tmp_path, ["identity"]) as server:
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
