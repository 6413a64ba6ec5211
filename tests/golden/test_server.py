"""The golden server speaks KServe v2, by an independent client (tritonclient) and by raw sockets, and counts truly."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from tests.golden.server import GoldenServer
from tests.support.raw_client import body, connect, exchange, receive


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
