"""A server that cannot be reached, drips, says odd things of itself, or stalls in its TLS handshake."""

import contextlib
import json
import socket
import threading
import time
from pathlib import Path

from hyperframe.frame import PingFrame

from servemark.figures.registry import value_of
from servemark.results.verdict import Kind
from tests.faults.answers import ANY, EVERY
from tests.faults.generator import LOCUST, SERVEMARK, Rig
from tests.faults.raw_grpc import Caller, GrpcFront, good
from tests.faults.raw_http import HEAD_END, Front, Proxy
from tests.faults.registry import BAD_INPUT, Expected, Seen, fault
from tests.golden.server import GoldenServer
from tests.support.certificates import Authority
from tests.support.raw_server import raw_server
from tests.support.web import free_port

REFUSED = "refused"


def not_begun(says: str) -> Expected:
    """The run does not begin, and says why."""
    return Expected(codes=(BAD_INPUT,), result="none", says=says)


for _name, _command in (("dead", LOCUST), ("dead-run", SERVEMARK)):

    @fault(1, _name, f"nothing listens at the port, `{_command[2]}`", "a free port", not_begun(REFUSED))
    def _dead(rig: Rig, command: list[str] = _command) -> Seen:
        return rig.run(f"http://127.0.0.1:{free_port()}", command=command)


@fault(1, "refused", "from the middle of the run on nothing listens any more", "golden server, killed",
       Expected(kinds=("connection_refused",), also=("connection_reset", "connection_closed"),
                fails=Kind.SERVER_ALIVE))  # fmt: skip
def _refused(rig: Rig) -> Seen:
    with GoldenServer() as server:

        def kill(_: object) -> None:
            time.sleep(0.7)
            server.kill()

        return rig.run(server.url, "--request-rate", "200", loaded=lambda: len(server.requests()) > EVERY, during=kill)


def _dripping(connection: socket.socket) -> None:
    """A byte a second, until the other side has gone."""
    connection.recv(1 << 16)
    with contextlib.suppress(OSError):
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(1000):
            connection.sendall(bytes([byte]))
            time.sleep(1)


@fault(5, "drip", "the control plane sends a byte a second", "raw server", not_begun("timed out"))
def _drip(rig: Rig) -> Seen:
    with raw_server(_dripping) as (port, _):
        return rig.run(f"http://127.0.0.1:{port}")


@fault(5, "drip-metrics", "the metrics send a byte a second", "raw server after `#metrics=`", Expected(codes=ANY))
def _drip_metrics(rig: Rig) -> Seen:
    with raw_server(_dripping) as (port, _), Front() as front:
        return rig.run(f"{front.url}#metrics=127.0.0.1:{port}", received=front.received)


@fault(5, "ping-control", "the control plane sends PING without an end", "raw HTTP/2 server", not_begun("timed out"))
def _ping_control(rig: Rig) -> Seen:
    pings = PingFrame(0, b"12345678").serialize() * 10_000

    def flood(caller: Caller, _stream: int) -> None:
        def swallow() -> None:
            with contextlib.suppress(OSError):
                while caller.socket.recv(1 << 16):
                    pass

        threading.Thread(target=swallow, daemon=True).start()
        while True:
            caller.socket.sendall(pings)

    with GrpcFront(lambda *_: None, flood) as front:
        return rig.run(front.url)


def _certified(rig: Rig, names: str = "IP:127.0.0.1") -> tuple[Authority, Path]:
    authority = Authority(rig.new_folder() / "ca").make()
    return authority, authority.issue("server", names)


@fault(14, "ca", "a certificate of a CA that is not trusted", "golden server over TLS", not_begun("no TLS with"))
def _ca(rig: Rig) -> Seen:
    with GoldenServer(certificate=str(_certified(rig)[1])) as server:
        return rig.run(server.url)


@fault(14, "host", "a certificate for another host", "golden server over TLS", not_begun("no TLS with"))
def _host(rig: Rig) -> Seen:
    authority, certificate = _certified(rig, "DNS:elsewhere.example")
    with GoldenServer(certificate=str(certificate)) as server:
        return rig.run(server.url, "--tls-ca", str(authority.certificate))


@fault(14, "no-tls", "a server without TLS at an https:// URL", "golden server", not_begun("no TLS with"))
def _no_tls(rig: Rig) -> Seen:
    with GoldenServer() as server:
        return rig.run(server.url.replace("http:", "https:"))


@fault(14, "mutual", "a server that asks for a certificate, and gets none", "golden server over TLS", not_begun(""))
def _mutual(rig: Rig) -> Seen:
    authority, certificate = _certified(rig)
    with GoldenServer(certificate=str(certificate), client_ca=str(authority.certificate)) as server:
        return rig.run(server.url, "--tls-ca", str(authority.certificate))


@fault(
    15,
    "handshake",
    "no TLS handshake comes about, from the start",
    "raw server that says nothing",
    not_begun("timed out"),
)
def _handshake(rig: Rig) -> Seen:
    def say_nothing(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass

    with raw_server(say_nothing) as (port, _):
        return rig.run(f"https://127.0.0.1:{port}")


@fault(15, "handshakes", "all connections break, and the TLS handshakes of the next ones stall",
       "proxy before the golden server over TLS",
       Expected(kinds=("timeout",), also=("connection_closed", "connection_reset", "tls_error"),
                fails=Kind.SERVER_ALIVE))  # fmt: skip
def _handshakes(rig: Rig) -> Seen:
    authority, certificate = _certified(rig)
    with GoldenServer(certificate=str(certificate)) as server, Proxy(server.port) as proxy:

        def stall(_: object) -> None:
            time.sleep(0.5)
            proxy.mode = "stall"
            proxy.cut()

        return rig.run(
            f"https://127.0.0.1:{proxy.port}",
            *("--tls-ca", str(authority.certificate), "--request-timeout", "0.3"),
            loaded=lambda: len(server.requests()) > EVERY,
            during=stall,
        )


STATISTICS = {
    "stats-success": b'{"model_stats":[{"inference_stats":{"success":{"count":1,"ns":2}}}]}',
    "stats-nan": b'{"model_stats":[{"inference_stats":{"success":{"count":1,"ns":NaN}}}]}',
    "stats-deep": b"[" * 200_000,
    "stats-list": b'{"model_stats":[[1,2]]}',
}
for _name, _body in STATISTICS.items():

    @fault(17, _name, f"statistics are `{_body[:44].decode()}`", "raw server", Expected(codes=ANY))
    def _statistics(rig: Rig, body: bytes = _body) -> Seen:
        seen = rig.answered(documents={"stats": body})
        if seen.result and value_of(seen.result, "server.queue") is not None:
            seen.troubles.append("figures of a server that has none")
        return seen


CONFIGS = {"config-list": {"instance_group": [5]}, "config-object": {"instance_group": {"kind": "KIND_GPU"}}}
for _name, _config in CONFIGS.items():

    @fault(17, _name, f"the configuration is `{json.dumps(_config)}`", "raw server", Expected(codes=ANY))
    def _configuration(rig: Rig, config: object = _config) -> Seen:
        return rig.answered(documents={"config": json.dumps(config).encode()})


@fault(17, "metrics", "metrics without the labels of Triton's", "raw server after `#metrics=`", Expected(codes=ANY))
def _metrics(rig: Rig) -> Seen:
    text = b'nv_gpu_power_usage{gpu="?"} nan\nnv_inference_count 5\n{{{ 7\n' + b"x" * 10_000
    with Front(documents={"metrics": text}) as front:
        return rig.run(f"{front.url}#metrics=127.0.0.1:{front.port}", received=front.received)


@fault(31, "metadata", "metadata of another shape", "raw server", not_begun("cannot be read"))
def _metadata(rig: Rig) -> Seen:
    described = b'{"name": "golden", "inputs": [7], "outputs": {}}'
    return rig.answered(documents={"golden": described}, received=None)


@fault(31, "control-length", "the control plane announces 10^19 bytes", "raw server", not_begun(""))
def _control_length(rig: Rig) -> Seen:
    def handle(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000000000000" + HEAD_END + bytes(10_000))

    with raw_server(handle) as (port, _):
        return rig.run(f"http://127.0.0.1:{port}")


@fault(
    31,
    "stream",
    "a stream that the server ends after each answer",
    "raw HTTP/2 server",
    Expected(codes=ANY, kinds=None),
)
def _stream(rig: Rig) -> Seen:
    def infer(caller: Caller, stream: int, _number: int) -> None:
        good(caller, stream)
        raise EOFError

    with GrpcFront(infer) as front:
        return rig.run(front.url)
