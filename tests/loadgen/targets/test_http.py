"""A server over HTTP: the engine that really runs, who serves a run, and a new connection for each request."""

import os
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from loadgen.load.load_config import LoadConfig
from loadgen.sut.target import ConnectionTimes, Placement
from loadgen.targets.open import workload_of
from loadgen.targets.http import read_placement, server_processes
from loadgen.targets.open import open_target
from loadgen.transport.tcp import Address
from servemark.errors import OptionError
from servemark.figures.registry import count_of, why_unknown
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import Load, TargetLoad, constant_ns
from tests.golden.server import GoldenServer
from tests.support.certificates import Authority, needs_openssl
from tests.support.load_config import config, request_of
from tests.support.locust_run import run
from tests.support.result_checks import counted_result

METRICS = """# TYPE nv_inference_request_success counter
nv_inference_request_success{model="m",version="1"} 3
servemark_engine_info{device="cuda:1",engine="pytorch",model="m",provider="torch.compile (\\"x\\")"} 1
servemark_engine_info{device="cuda:0",engine="pytorch",model="m",provider="torch.compile (\\"x\\")"} 1
servemark_engine_info{device="cpu",engine="onnxruntime",model="other",provider="CPUExecutionProvider"} 1
servemark_engine_info{engine="onnxruntime",model="partial"} 1
"""
CONFIGURED = Placement("pytorch", "cuda:0", None)
DELAY_S = 0.01


@pytest.fixture(scope="module")
def metrics_url() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(METRICS.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_the_instances_of_a_model_say_where_they_run(metrics_url: str) -> None:
    found = read_placement(CONFIGURED, metrics_url, "m")
    assert found == Placement("pytorch", "cuda:0,cuda:1", 'torch.compile ("x")')


def test_no_proxy_is_asked(metrics_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert read_placement(CONFIGURED, metrics_url, "m").device == "cuda:0,cuda:1"


def test_without_its_line_the_configuration_is_all_there_is(metrics_url: str) -> None:
    assert read_placement(CONFIGURED, metrics_url, "another") == CONFIGURED
    assert read_placement(CONFIGURED, metrics_url, "partial") == CONFIGURED
    assert read_placement(CONFIGURED, None, "m") == CONFIGURED
    assert read_placement(CONFIGURED, "http://127.0.0.1:9/metrics", "m") == CONFIGURED


@pytest.mark.parametrize(
    ("host", "url", "metrics"),
    [
        ("http://h:8000", "http://h:8000", "http://h:8002/metrics"),
        ("grpc://h:8001", "grpc://h:8001", "http://h:8002/metrics"),
        ("http://h:9000", "http://h:9000", None),
        ("http://h:9000#metrics=9002", "http://h:9000", "http://h:9002/metrics"),
        ("http://h:9000#metrics=other:9002", "http://h:9000", "http://other:9002/metrics"),
    ],
)
def test_an_address_names_the_metrics_too(host: str, url: str, metrics: str | None) -> None:
    found = config("ranking_tiny", "--url", host)
    assert (found.url, found.metrics_url) == (url, metrics)
    again = config("ranking_tiny", "--url", found.address)
    assert (again.url, again.metrics_url) == (url, metrics)


def test_a_metrics_port_is_a_port() -> None:
    with pytest.raises(OptionError, match="is not http:"):
        config("ranking_tiny", "--url", "http://h:9000#metrics=here")


class Listening:
    """An address at which a test chooses the listeners; None: they cannot be known."""

    def __init__(self, *pids: int | None) -> None:
        self.pids = pids

    def processes(self) -> list[int]:
        if None in self.pids:
            raise LookupError("another user's")
        return [pid for pid in self.pids if pid is not None]


def serving(addresses: Sequence[Listening], *flags: str) -> list[int]:
    asked = config("ranking_tiny", "--url", "http://127.0.0.1:9", *flags)
    return server_processes(asked, cast(Sequence[Address], addresses))


def test_who_listens_and_who_was_named_serve() -> None:
    me = os.getpid()
    assert serving([]) == []
    assert serving([Listening(7, 5), Listening(5)]) == [5, 7]
    assert serving([Listening(me + 1)], f"--server-process={me}") == [me, me + 1]


def test_one_that_was_named_is_enough_where_it_is_not_seen_who_listens() -> None:
    assert serving([Listening(None)], f"--server-process={os.getpid()}") == [os.getpid()]
    with pytest.raises(LookupError, match="another user's"):
        serving([Listening(None)])


def sent_to(server: Any, *flags: str, count: int = 20) -> tuple[Load, ConnectionTimes]:
    request = request_of("golden", "--url", server.url, "--no-connection-reuse", *flags)
    target = open_target(LoadConfig.of(request, workload_of))
    target.prepare()
    load = TargetLoad(target).open(constant_ns(200, count))
    assert target.connection_times is not None
    target.connection_times.flush(0, 1 << 62)
    return load, target.connection_times


def check(load: Load, times: ConnectionTimes, count: int = 20) -> None:
    assert load.kinds == {"ok": count}
    parts = [times.connect, times.tls, times.first_byte, times.receive]
    assert [part.count for part in parts] == [count] * 4
    whole = sum(outcome.done - outcome.sent for outcome in load.outcomes)
    assert sum(part.sum_s for part in parts) == pytest.approx(whole / 1e9, rel=1e-9)
    assert times.first_byte.min_ns >= DELAY_S * 1e9
    assert times.connect.min_ns > 0


def test_each_request_over_http_has_a_connection() -> None:
    with GoldenServer(delay_s=DELAY_S) as server:
        check(*sent_to(server))
        assert len({entry["connection"] for entry in server.requests()}) == 20


def test_each_request_over_grpc_has_a_connection() -> None:
    with GoldenGrpc(delay_s=DELAY_S) as server:
        check(*sent_to(server))


@needs_openssl
def test_the_handshake_of_tls_is_a_part(certificate: str, authority: Authority) -> None:
    with GoldenServer(delay_s=DELAY_S, certificate=certificate) as server:
        load, times = sent_to(server, "--tls-ca", str(authority.certificate))
    check(load, times)
    assert times.tls.min_ns > 0


def test_a_large_answer_takes_a_while_to_come() -> None:
    shape = "FP32:150000"
    with GoldenServer(inputs=[f"INPUT0:{shape}"], outputs=[f"OUTPUT0:{shape}"], slow_every=1, slow_s=0.2) as server:
        load, times = sent_to(server, count=4)
    assert load.kinds == {"ok": 4}
    assert times.receive.min_ns >= 50_000_000


def test_failed_requests_have_no_parts() -> None:
    with GoldenServer(error_every=2, delay_s=DELAY_S) as server:
        load, times = sent_to(server)
    assert (load.kinds["http_500"], times.connect.count) == (10, 10)


def test_a_run_has_the_parts(tmp_path: Path) -> None:
    flags = ["--model-name", "golden", "--users", "2", "--duration", "0.6", "--warmup", "0.1", "--no-connection-reuse"]
    with GoldenServer(delay_s=DELAY_S) as server:
        done = run("any_model", *flags, "--url", server.url, "--out", str(tmp_path))
        received = server.requests()
    result = counted_result(tmp_path, len(received))
    assert len({entry["connection"] for entry in received}) == len(received)
    means = [result["figures"][f"{part}.mean"] for part in ("connect", "first_byte", "receive")]
    assert {mean["n"] for mean in means} == {count_of(result, "requests.answered")}
    assert "tls.mean" not in result["figures"]
    assert "an address" in why_unknown(result, "connection.dns")
    assert sum(mean["value"] for mean in means) <= result["figures"]["service_time.mean"]["value"] + 1e-6
    assert "first byte" in done.stdout


@pytest.mark.parametrize("flags", [("--sequence-length", "3"), ("--protocol", "grpc", "--streaming"), ("--explain",)])
def test_what_needs_a_lasting_connection_is_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(
        OptionError, match=f"--no-connection-reuse excludes {flags[-1] if len(flags) > 2 else flags[0]}"
    ):
        request_of("golden", "--no-connection-reuse", *flags)
