"""Inference over gRPC against grpcio's own server: counts, checks, outputs, errors, and the control plane."""

import contextlib
import socket
import threading
import time
import zlib

import numpy as np
import pytest
from hyperframe.frame import PingFrame

from loadgen.kserve import grpc_control
from loadgen.kserve.control import Control
from loadgen.kserve.grpc_call import status_name
from loadgen.kserve.grpc_control import GrpcControl
from loadgen.transport.tcp import resolve
from servemark.errors import ServerError
from tests.golden.grpc import ERROR, GoldenGrpc
from tests.golden.load import constant_ns, tensor
from tests.support.any_workload import any_workload
from tests.support.grpc_load import GrpcLoad
from tests.support.http2_peer import Peer, answering
from tests.support.raw_server import raw_server

WORKLOAD = any_workload([tensor(64, "INPUT0")], [tensor(64)], served=False)

both = pytest.mark.parametrize("streaming", [False, True], ids=["unary", "streaming"])


@both
@pytest.mark.parametrize("concurrency", [1, 32])
def test_every_request_is_answered_and_counted_once(streaming: bool, concurrency: int) -> None:
    with GoldenGrpc() as server:
        load = GrpcLoad(server.port, streaming=streaming, connect=concurrency).closed(concurrency, 0.5)
        log = server.log()
    assert load.kinds == {"ok": log["requests"]}
    assert load.peak_in_flight == concurrency
    assert log["streams"] == (concurrency if streaming else 0)


@both
def test_requests_arrive_and_outputs_come_back_byte_by_byte(streaming: bool) -> None:
    with GoldenGrpc(width=64) as server:
        load = GrpcLoad(server.port, streaming=streaming, batch=3, distinct=7).open(constant_ns(200, 14))
        log = server.log()
    arrays = load.arrays()
    assert log["checksums"] == 2 * sum(zlib.crc32(array.tobytes()) for array in arrays)
    for number, outcome in enumerate(load.good):
        assert outcome.response is not None
        np.testing.assert_array_equal(outcome.response.arrays([tensor(64)])["OUTPUT0"], arrays[number % 7])
    assert load.kinds == {"ok": 14}


@both
@pytest.mark.parametrize("width", [20_000, 2_000_000])  # beyond a window of 64 KiB, and beyond every buffer
def test_large_messages(streaming: bool, width: int) -> None:
    with GoldenGrpc() as server:
        load = GrpcLoad(server.port, streaming=streaming, width=width, distinct=2, timeout_s=30).open(constant_ns(4, 6))
        log = server.log()
    arrays = load.arrays()
    assert load.kinds == {"ok": 6}
    assert log["checksums"] == 3 * sum(zlib.crc32(array.tobytes()) for array in arrays)
    last = load.good[-1].response
    assert last is not None
    np.testing.assert_array_equal(last.arrays([tensor(width)])["OUTPUT0"], arrays[1])
    assert last.size > 4 * width


@both
def test_errors_are_counted_by_kind_and_leave_the_connection_usable(streaming: bool) -> None:
    behaviour = {"error_every": 10, "wrong_shape_every": 7, "wrong_datatype_every": 11, "missing_every": 13}
    behaviour |= {"other_model_every": 17, "other_version_every": 19}
    with GoldenGrpc(**behaviour) as server:
        load = GrpcLoad(server.port, streaming=streaming).closed(1, 0.5)
        log = server.log()
    # the order in which the server looks
    order = {10: "error", 17: "wrong_model", 19: "wrong_version", 13: "missing_output"}
    order |= {11: "wrong_datatype", 7: "wrong_shape"}
    # both of the last two are wrong where they meet, and the datatype is looked at first
    wanted = [next((kind for n, kind in order.items() if i % n == 0), "ok") for i in range(1, log["requests"] + 1)]
    error = "grpc_stream_error" if streaming else "grpc_unavailable"
    assert [outcome.error or "ok" for outcome in load.outcomes] == [error if w == "error" else w for w in wanted]
    assert load.outcomes[9].response is not None
    assert load.outcomes[9].words() == f"{ERROR} 10"
    said = {outcome.error: outcome.words() for outcome in reversed(load.outcomes)}  # the first of each
    lacking = "output 'OUTPUT0' FP32[1, 64] is missing; the answer has none"
    expected = "output 'OUTPUT0' is expected as FP32[1, 64], and the answer has"
    assert said["missing_output"] == lacking
    assert (said["wrong_shape"], said["wrong_datatype"]) == (f"{expected} FP32[1, 64, 1]", f"{expected} INT32[1, 64]")
    assert log["streams"] == int(streaming)


@pytest.mark.parametrize(
    ("status", "name"),
    [
        ("0", "ok"),
        ("14", "unavailable"),
        ("999", "status_999"),
        ("", "status_other"),
        ("-1", "status_other"),
        ("1234", "status_other"),
        ("1" * 5000, "status_other"),
        ("\u0661", "status_other"),
        ("evil,\n0,0,0,", "status_other"),
    ],
)
def test_names_of_statuses(status: str, name: str) -> None:
    assert status_name(status) == name


@both
def test_values_that_are_not_raw_are_read_too(streaming: bool) -> None:
    with GoldenGrpc(typed_every=2) as server:
        load = GrpcLoad(server.port, streaming=streaming, distinct=2).open(constant_ns(100, 8))
    assert load.kinds == {"ok": 8}
    for number, outcome in enumerate(load.good):
        assert outcome.response is not None
        np.testing.assert_array_equal(outcome.response.arrays([tensor(64)])["OUTPUT0"], load.arrays()[number % 2])


def test_a_stream_that_the_server_ends_fails_one_request_and_is_opened_again() -> None:
    with GoldenGrpc(end_every=5) as server:
        load = GrpcLoad(server.port, streaming=True).closed(1, 0.5)
        log = server.log()
    assert [o.error for o in load.outcomes] == [
        None if number % 5 else "grpc_aborted" for number in range(1, log["requests"] + 1)
    ]
    assert log["streams"] == -(-log["requests"] // 5)


@both
def test_a_server_that_dies_fails_what_is_on_its_way_and_all_that_follows(streaming: bool) -> None:
    with GoldenGrpc(delay_s=0.05) as server:
        load = GrpcLoad(server.port, streaming=streaming)
        load.tick = lambda _now: server.kill() if len(load.outcomes) >= 10 else None
        kinds = load.open(constant_ns(50, 50)).kinds
    assert kinds.total() == 50
    assert kinds.keys() <= {"ok", "connection_closed", "connection_reset", "connection_refused"}
    assert 10 <= kinds["ok"] < 50


@both
def test_a_late_answer_is_a_time_out(streaming: bool) -> None:
    with GoldenGrpc(delay_s=1.0) as server:
        load = GrpcLoad(server.port, streaming=streaming, timeout_s=0.3).open(constant_ns(50, 5))
    assert load.kinds == {"timeout": 5}


def test_http_at_a_grpc_port_is_told_apart_from_no_server() -> None:
    with (
        GoldenGrpc() as server,
        pytest.raises(ServerError, match=rf"does not speak HTTP(.|\n)*fix: --url grpc://127.0.0.1:{server.port}"),
    ):
        Control(f"http://127.0.0.1:{server.port}").require_model("golden", WORKLOAD, "servemark serve x")


def test_a_foreign_server_is_checked_over_grpc_alone() -> None:
    with GoldenGrpc() as server:
        control = GrpcControl(server.url)
        control.require_model("golden", WORKLOAD, "servemark serve x")
        assert control.placement("golden").engine is None  # it has no such method
        assert control.statistics("golden") is None
        with pytest.raises(ServerError, match="does not serve 'other'"):
            control.require_model("other", WORKLOAD, "servemark serve x")
    with pytest.raises(ServerError, match=r"no server answers at grpc://.*refused"):
        control.require_model("golden", WORKLOAD, "servemark serve x")


def test_a_flood_of_pings_does_not_hold_up_the_control_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is always something to read, so that no wait for the socket would ever end in a time-out."""

    def respond(peer: Peer, _stream: int) -> None:
        pings = PingFrame(0, b"12345678").serialize() * 100_000
        threading.Thread(target=swallow, args=[peer.socket], daemon=True).start()
        end = time.monotonic() + 10
        try:
            while time.monotonic() < end:
                peer.socket.sendall(pings)
        except OSError:
            hung_up.set()
            raise

    def swallow(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass

    hung_up = threading.Event()
    monkeypatch.setattr(grpc_control, "TIMEOUT_S", 0.5)
    with (
        raw_server(answering(respond)) as (port, accepted),
        pytest.raises(ServerError, match=r"no server answers at grpc://.*timed out"),
    ):
        GrpcControl(f"grpc://127.0.0.1:{port}").require_model("golden", WORKLOAD, "servemark serve x")
    assert accepted == [1]
    assert hung_up.wait(20), "it waited until the flood was over"


def test_a_grpc_url_without_a_port_is_triton_s() -> None:
    assert resolve("grpc://127.0.0.1").sockaddr[1] == 8001
