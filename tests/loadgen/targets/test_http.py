"""A server over HTTP: its engine, who serves a run, a connection for each request, paths, names and redirects."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import numpy as np
import pytest

from loadgen.kserve.control import Control
from loadgen.sut.channel import Outcome
from loadgen.sut.target import Placement
from loadgen.targets.http import read_placement, server_processes
from loadgen.targets.open import served_workload
from loadgen.transport.tcp import Address
from servemark.documents.request import RunRequest
from servemark.errors import OptionError, ServerError
from servemark.figures.evidence import ConnectionTimes
from servemark.figures.registry import count_of, why_unknown
from servemark.workload import Tensor
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import Load, TargetLoad, answers, constant_ns, target_at
from tests.golden.server import GoldenServer
from tests.support.certificates import Authority, needs_openssl
from tests.support.load_config import config, of_server
from tests.support.raw_server import pages, raw_server
from tests.support.result_checks import counted_result, run_here

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
    with pages({b"/metrics": METRICS.encode()}) as (url, _):
        yield f"{url}/metrics"


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


def processes_at(addresses: Sequence[Listening], *flags: str) -> list[int]:
    asked = config("ranking_tiny", "--url", "http://127.0.0.1:9", *flags)
    return server_processes(asked, cast(Sequence[Address], addresses))


def test_who_listens_and_who_was_named_serve() -> None:
    me = os.getpid()
    assert processes_at([]) == []
    assert processes_at([Listening(7, 5), Listening(5)]) == [5, 7]
    assert processes_at([Listening(me + 1)], f"--server-process={me}") == [me, me + 1]


def test_one_that_was_named_is_enough_where_it_is_not_seen_who_listens() -> None:
    assert processes_at([Listening(None)], f"--server-process={os.getpid()}") == [os.getpid()]
    with pytest.raises(LookupError, match="another user's"):
        processes_at([Listening(None)])


def sent_to(server: Any, *flags: str, count: int = 20) -> tuple[Load, ConnectionTimes]:
    target = target_at(server.url, "--no-connection-reuse", *flags)
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
    flags = ["--concurrency", "2", "--duration", "0.6", "--warmup", "0.1", "--no-connection-reuse"]
    with GoldenServer(delay_s=DELAY_S) as server:
        _, text = run_here(of_server(server.url, *flags, "--out", str(tmp_path), model="golden"))
        received = server.requests()
    result = counted_result(tmp_path, len(received))
    assert len({entry["connection"] for entry in received}) == len(received)
    means = [result["figures"][f"{part}.mean"] for part in ("connect", "first_byte", "receive")]
    assert {mean["n"] for mean in means} == {count_of(result, "requests.answered")}
    assert "tls.mean" not in result["figures"]
    assert "an address" in why_unknown(result, "connection.dns")
    assert sum(mean["value"] for mean in means) <= result["figures"]["service_time.mean"]["value"] + 1e-6
    assert "first byte" in text


TENSORS = {
    kind: [{"name": name, "datatype": "FP32", "shape": [-1, 2]}] for kind, name in (("inputs", "x"), ("outputs", "y"))
}
ANSWER = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}


def serving(base: bytes, *, in_chunks: bool = False) -> AbstractContextManager[tuple[str, list[bytes]]]:
    """A KServe v2 server of one model below `base`, and the paths asked for."""
    return pages({base + b"/ready": {}, base: TENSORS, base + b"/infer": ANSWER}, in_chunks=in_chunks)


def drive(url: str, name: str) -> list[Outcome]:
    """Ask a model ten times."""
    workload = served_workload(Control(url), name, RunRequest().inputs)
    return answers(config(name, "--url", url, "--concurrency", "1", lookup=lambda _: workload), 10).outcomes


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
