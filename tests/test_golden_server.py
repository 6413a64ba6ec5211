"""The golden server does what it was told, by an independent client (tritonclient) and by raw sockets."""

import itertools
import json
import socket
import struct
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from tests.golden_behaviour import Behaviour
from tests.golden_server import GoldenServer

# The clock may be late on a busy machine, never early.
LATE_S = 0.05


def body(batch: int = 1, width: int = 64) -> bytes:
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": "INPUT0",
                    "datatype": "FP32",
                    "shape": [batch, width],
                    "parameters": {"binary_data_size": 4 * batch * width},
                }
            ],
            "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}],
        }
    ).encode()
    tensor = np.arange(batch * width, dtype="f4").tobytes()
    head = (
        f"POST /v2/models/golden/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: {len(header)}\r\n"
        f"Content-Length: {len(header) + len(tensor)}\r\n\r\n"
    )
    return head.encode() + header + tensor


def connect(server: GoldenServer, timeout_s: float = 10) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection: socket.socket) -> tuple[int, dict[str, Any], bytes]:
    """Status, the JSON header and the binary rest of one response."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += (got := connection.recv(65536))
        if not got:
            raise ConnectionError("closed inside the head")
    head, _, data = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    length = int(headers["content-length"])
    while len(data) < length:
        data += (got := connection.recv(65536))
        if not got:
            raise ConnectionError("closed inside the body")
    assert len(data) == length
    header = int(headers.get("inference-header-content-length", length))
    return int(first.split()[1]), json.loads(data[:header]), data[header:]


def exchange(connection: socket.socket, request: bytes | None = None) -> tuple[int, Any, bytes]:
    connection.sendall(request or body())
    return receive(connection)


def inputs(array: np.ndarray[Any, Any], *, binary: bool = True) -> list[triton.InferInput]:
    tensor = triton.InferInput("INPUT0", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array, binary_data=binary)
    return [tensor]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
def test_identity_with_tritonclient(binary_in: bool, binary_out: bool | None) -> None:
    array = np.random.default_rng(0).standard_normal((3, 64)).astype("f4")
    with GoldenServer() as server, triton.InferenceServerClient(server.address) as client:
        outputs = None if binary_out is None else [triton.InferRequestedOutput("OUTPUT0", binary_data=binary_out)]
        result = client.infer("golden", inputs(array, binary=binary_in), outputs=outputs, request_id="r7")
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)
        assert result.get_response()["id"] == "r7"
        [entry] = server.requests()
    assert (entry["batch"], entry["kind"], entry["request_id"]) == (3, "ok", "r7")


def test_endpoints_with_tritonclient() -> None:
    with (
        GoldenServer(model="toy", inputs=["A:INT64:4", "B:BYTES:1"], outputs=["OUT:FP32:2"]) as server,
        triton.InferenceServerClient(server.address) as client,
    ):
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("toy")
        assert client.is_model_ready("toy", "1")
        assert not client.is_model_ready("other")
        assert client.get_server_metadata()["name"] == "golden"
        assert client.get_model_metadata("toy")["inputs"][1] == {"name": "B", "datatype": "BYTES", "shape": [-1, 1]}
        assert client.get_model_config("toy")["input"][1] == {"name": "B", "data_type": "TYPE_STRING", "dims": [1]}
        assert client.get_model_repository_index() == [{"name": "toy", "version": "1", "state": "READY"}]
        a, b = triton.InferInput("A", [2, 4], "INT64"), triton.InferInput("B", [2, 1], "BYTES")
        a.set_data_from_numpy(np.zeros((2, 4), "i8"))
        b.set_data_from_numpy(np.array([[b"x"], ["grün".encode()]], dtype=object))
        result = client.infer("toy", [b, a])
        np.testing.assert_array_equal(result.as_numpy("OUT"), np.zeros((2, 2), "f4"))
        b.set_data_from_numpy(np.array([[b"x"], [b"y"]], dtype=object), binary_data=False)
        assert client.infer("toy", [a, b], model_version="1").as_numpy("OUT").shape == (2, 2)


def test_statistics_are_true_counts() -> None:
    with (
        GoldenServer(delay_s=0.01, error_every=5) as server,
        triton.InferenceServerClient(server.address) as client,
    ):
        for number in range(1, 11):
            array = np.ones((1 + number % 2, 64), "f4")
            if number % 5:
                client.infer("golden", inputs(array))
            else:
                with pytest.raises(InferenceServerException, match=f"golden error on request {number}"):
                    client.infer("golden", inputs(array))
        [model] = client.get_inference_statistics("golden")["model_stats"]
    stats = model["inference_stats"]
    assert (stats["success"]["count"], stats["fail"]["count"], model["execution_count"]) == (8, 2, 8)
    # 1, 3, 7, 9 with two rows; 2, 4, 6, 8 with one
    assert [(b["batch_size"], b["compute_infer"]["count"]) for b in model["batch_stats"]] == [(1, 4), (2, 4)]
    assert model["inference_count"] == 12
    assert stats["compute_infer"] == {"count": 8, "ns": 80_000_000}
    assert stats["success"]["ns"] >= 80_000_000


@pytest.mark.parametrize("delay_s", [0.0, 0.0025, 0.05])
def test_delay(delay_s: float) -> None:
    with GoldenServer(delay_s=delay_s) as server, connect(server) as connection:
        took = []
        for _ in range(20):
            begin = time.monotonic_ns()
            exchange(connection)
            took.append((time.monotonic_ns() - begin) / 1e9)
        log = server.requests()
    assert min(took) >= delay_s
    assert min(took) < delay_s + 0.05
    assert [entry["due_ns"] - entry["arrival_ns"] for entry in log] == [round(delay_s * 1e9)] * 20
    assert all(entry["written_ns"] >= entry["due_ns"] for entry in log)


def test_timers_are_finer_than_a_millisecond() -> None:
    with GoldenServer(delay_s=0.0003) as server, connect(server) as connection:
        for _ in range(100):
            exchange(connection)
        late_ns = sorted(entry["written_ns"] - entry["due_ns"] for entry in server.requests())
    assert late_ns[10] < 500_000  # the best tenth: the others may wait for a processor


def test_parallel_without_capacity() -> None:
    with GoldenServer(delay_s=0.3) as server:
        connections = [connect(server) for _ in range(50)]
        begin = time.monotonic()
        with ThreadPoolExecutor(50) as pool:
            assert {status for status, *_ in pool.map(exchange, connections)} == {200}
        assert 0.3 <= time.monotonic() - begin < 0.3 * 50 / 2  # far from one after the other
        log = server.log()
        for connection in connections:
            connection.close()
    assert len({entry["connection"] for entry in log["requests"]}) == 50
    assert log["connections"] == 52  # and those of the readiness check and of the log


def test_stall_rule() -> None:
    behaviour = Behaviour(stall_s=0.2, stall_every_s=1.0, stall_phase_s=0.5)
    second = 10**9
    for arrival_s, start_s in [(0.0, 0.0), (0.49, 0.49), (0.5, 0.7), (0.69, 0.7), (0.7, 0.7), (2.6, 2.7), (2.71, 2.71)]:
        start_ns = behaviour.after_stall_ns(round((7 + arrival_s) * second), 7 * second)
        assert start_ns == round((7 + start_s) * second), arrival_s
    with pytest.raises(ValueError, match="longer than"):
        Behaviour(stall_s=1, stall_every_s=1)


def test_stall_holds_what_arrives_in_it() -> None:
    with (
        GoldenServer(
            stall_s=0.2, stall_every_s=0.4, stall_phase_s=0.1, stall_anchor="first_request", delay_s=0.01
        ) as server,
        connect(server) as connection,
    ):
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            exchange(connection)
        log = server.requests()
    anchor_ns = log[0]["arrival_ns"]
    held = 0
    for entry in log:
        into_ns = (entry["arrival_ns"] - anchor_ns - 100_000_000) % 400_000_000
        stalled = entry["arrival_ns"] >= anchor_ns + 100_000_000 and into_ns < 200_000_000
        held += stalled
        wait_ns = 200_000_000 - into_ns if stalled else 0
        assert entry["due_ns"] - entry["arrival_ns"] == wait_ns + 10_000_000
        assert entry["due_ns"] <= entry["written_ns"]
    # one closed-loop connection meets each stall at most once: the coordinated omission in a nutshell
    assert 1 <= held <= 3


def test_capacity_is_one_fifo_server() -> None:
    with GoldenServer(capacity_per_s=100) as server:
        connections = [connect(server) for _ in range(30)]
        with ThreadPoolExecutor(30) as pool:
            list(pool.map(exchange, connections))
        log = server.requests()
        for connection in connections:
            connection.close()
    starts = [entry["start_ns"] for entry in log]
    assert starts == sorted(starts)
    assert all(b - a >= 10_000_000 for a, b in itertools.pairwise(starts))
    assert log[-1]["written_ns"] - log[0]["arrival_ns"] >= 300_000_000


def test_every_behaviour_on_its_turn() -> None:
    kinds: Counter[str] = Counter()
    with GoldenServer(
        error_every=3, error_status=503, wrong_shape_every=5, wrong_datatype_every=7, wrong_value_every=11
    ) as server:
        with connect(server) as connection:
            for number in range(1, 51):
                status, reply, raw = exchange(connection, body(batch=2))
                if number % 3 == 0:
                    kind = "error"
                    assert (status, reply) == (503, {"error": f"golden error on request {number}"})
                else:
                    [output] = reply["outputs"]
                    assert status == 200
                    assert output["parameters"]["binary_data_size"] == len(raw)
                    right = np.arange(128, dtype="f4").reshape(2, 64)
                    if number % 5 == 0:
                        kind = "wrong_shape"
                        assert (output["shape"], output["datatype"], len(raw)) == ([2, 63], "FP32", 2 * 63 * 4)
                    elif number % 7 == 0:
                        kind = "wrong_datatype"
                        assert (output["shape"], output["datatype"]) == ([2, 64], "INT32")
                    else:
                        kind = "ok" if number % 11 else "wrong_value"
                        values = np.frombuffer(raw, "f4").reshape(2, 64)
                        np.testing.assert_array_equal(values, right if kind == "ok" else right + 1)
                kinds[kind] += 1
        log = server.requests()
    assert Counter(entry["kind"] for entry in log) == kinds
    assert [entry["number"] for entry in log] == list(range(1, 51))
    assert len({entry["crc32"] for entry in log}) == 1


def test_reset_is_a_reset() -> None:
    with GoldenServer(reset_every=2, delay_s=0.02) as server:
        with connect(server) as connection:
            exchange(connection)
            with pytest.raises(ConnectionResetError):
                exchange(connection)
        first, second = server.requests()
    assert first["written_ns"] is not None
    assert (second["kind"], second["written_ns"]) == ("reset", None)


def test_truncated_body() -> None:
    with GoldenServer(truncate_every=1) as server, connect(server) as connection:
        with pytest.raises(ConnectionError, match="inside the body"):
            exchange(connection)
        assert [entry["kind"] for entry in server.requests()] == ["truncate"]


def test_never_answers() -> None:
    with GoldenServer(never_every=1) as server:
        with connect(server, timeout_s=0.3) as connection, pytest.raises(TimeoutError):
            exchange(connection)
        [entry] = server.requests()
    assert (entry["kind"], entry["written_ns"]) == ("never", None)


def test_slow_response_comes_in_pieces() -> None:
    with GoldenServer(slow_every=1, slow_s=0.2, slow_pieces=5, delay_s=0.05) as server, connect(server) as connection:
        begin = time.monotonic()
        connection.sendall(body())
        first = connection.recv(1)
        first_s = time.monotonic() - begin
        rest, pieces = b"", 0
        while b"OUTPUT0" not in rest or not rest.endswith(struct.pack("<f", 63.0)):
            rest += connection.recv(65536)
            pieces += 1
        last_s = time.monotonic() - begin
        [entry] = server.requests()
    assert first == b"H"
    assert first_s >= 0.05
    assert last_s >= 0.25
    assert pieces >= 2
    assert entry["due_ns"] - entry["arrival_ns"] == 250_000_000


def test_log_counts_are_exact_under_load_and_reset() -> None:
    def send(count: int) -> None:
        with connect(server) as connection:
            for _ in range(count):
                assert exchange(connection)[0] == 200

    with GoldenServer() as server:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(send, [50] * 8))
        log = server.log()
        server.reset()
        after = server.log()
    assert len(log["requests"]) == log["paths"]["POST /v2/models/golden/infer"] == 400
    assert Counter(entry["connection"] for entry in log["requests"]).most_common(1)[0][1] == 50
    assert after["requests"] == []
    assert after["started_ns"] > log["started_ns"]


def test_pipelined_and_split_requests() -> None:
    with GoldenServer(delay_s=0.01) as server, connect(server) as connection:
        request = body()
        connection.sendall(request + request[:30])
        assert receive(connection)[0] == 200
        for offset in range(30, len(request), 40):
            connection.sendall(request[offset : offset + 40])
        assert receive(connection)[0] == 200
        assert len(server.requests()) == 2


@pytest.mark.parametrize(
    ("request_bytes", "message"),
    [
        (body(width=63), "INPUT0: shape"),
        (body(batch=65), "batch size 65"),
        (body().replace(b"FP32", b"FP16"), "datatype FP16"),
        (body().replace(b"INPUT0", b"INPUT1"), "inputs"),
        (body().replace(b"OUTPUT0", b"OUTPUT9"), "unknown outputs"),
        (body().replace(b": 256", b": 255"), "the binary tensors end"),
        (b"POST /v2/models/golden/infer HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", "malformed"),
    ],
)
def test_malformed_requests_are_refused(request_bytes: bytes, message: str) -> None:
    with GoldenServer() as server, connect(server) as connection:
        status, reply, _ = exchange(connection, request_bytes)
        assert status == 400
        assert message in reply["error"]
        log = server.log()
    assert (log["rejected"], log["requests"]) == (1, [])


def test_unknown_model() -> None:
    with GoldenServer() as server, connect(server) as connection:
        status, _, _ = exchange(connection, body().replace(b"models/golden", b"models/other_"))
    assert status == 404
