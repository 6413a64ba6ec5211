"""A new connection for each request: the server sees one, and the parts add up to what the request took."""

from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from loadgen.load.load_config import LoadConfig
from loadgen.sut.connection_times import ConnectionTimes
from loadgen.targets.any_model import workload_of
from loadgen.targets.open import open_target
from servemark.errors import OptionError
from servemark.figures.registry import count_of, why_unknown
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import Load, constant_ns
from tests.golden.server import GoldenServer
from tests.support.certificates import Authority, needs_openssl
from tests.support.load_config import request_of
from tests.support.locust_run import run, the_result
from tests.support.result_checks import check_counts, check_schema

DELAY_S = 0.01


def sent_to(server: Any, *flags: str, count: int = 20) -> tuple[Load, ConnectionTimes]:
    request = request_of("golden", "--url", server.url, "--no-connection-reuse", *flags)
    target = open_target(LoadConfig.of(request, workload_of))
    target.prepare()

    class Sent(Load):
        def channels(self) -> Any:
            return target.connect

    load = Sent(0, requests=cycle([*islice(target.payloads(None), 8)])).open(constant_ns(200, count))
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
    result = the_result(tmp_path)
    check_schema(result)
    check_counts(result, len(received))
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
