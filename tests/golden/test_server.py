"""The golden server speaks KServe v2 and counts truly, by an independent client.

That it delays, stalls and breaks answers as it was told is what the tests of the driver and of the meter rest on: they
hold its own log against what the other side saw.
"""

import contextlib
import http.client
import json
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from tests.golden.server import GoldenServer


def inputs(array: np.ndarray[Any, Any], *, binary: bool = True) -> list[triton.InferInput]:
    tensor = triton.InferInput("INPUT0", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array, binary_data=binary)
    return [tensor]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
def test_identity(binary_in: bool, binary_out: bool | None) -> None:
    array = np.random.default_rng(0).standard_normal((3, 64)).astype("f4")
    with GoldenServer() as server, triton.InferenceServerClient(server.address) as client:
        outputs = None if binary_out is None else [triton.InferRequestedOutput("OUTPUT0", binary_data=binary_out)]
        result = client.infer("golden", inputs(array, binary=binary_in), outputs=outputs, request_id="r7")
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)
        assert result.get_response()["id"] == "r7"
        [entry] = server.requests()
    assert (entry["batch"], entry["kind"], entry["request_id"]) == (3, "ok", "r7")


def test_endpoints() -> None:
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
        taken = {"name": "B", "data_type": "TYPE_STRING", "dims": [1], "optional": False}
        assert client.get_model_config("toy")["input"][1] == taken
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
            fails = pytest.raises(InferenceServerException, match=f"golden error on request {number}")
            with contextlib.nullcontext() if number % 5 else fails:
                client.infer("golden", inputs(np.ones((1 + number % 2, 64), "f4")))
        [model] = client.get_inference_statistics("golden")["model_stats"]
    stats = model["inference_stats"]
    assert (stats["success"]["count"], stats["fail"]["count"], model["execution_count"]) == (8, 2, 8)
    # 1, 3, 7, 9 with two rows; 2, 4, 6, 8 with one
    assert [(b["batch_size"], b["compute_infer"]["count"]) for b in model["batch_stats"]] == [(1, 4), (2, 4)]
    assert model["inference_count"] == 12
    assert stats["compute_infer"] == {"count": 8, "ns": 80_000_000}
    assert stats["success"]["ns"] >= 80_000_000


def infer_request(
    batch: int = 1, width: int = 64, claimed: int | None = None, **changes: str
) -> tuple[dict[str, Any], bytes]:
    """Headers and body of a request, right unless it is told otherwise."""
    tensor = np.zeros((batch, width), "f4").tobytes()
    size = {"binary_data_size": claimed or len(tensor)}
    names = {"name": "INPUT0", "datatype": "FP32", "output": "OUTPUT0"} | changes
    asked = [{"name": names.pop("output"), "parameters": {"binary_data": True}}]
    header = json.dumps({"inputs": [{**names, "shape": [batch, width], "parameters": size}], "outputs": asked}).encode()
    return {"Inference-Header-Content-Length": len(header)}, header + tensor


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (infer_request(width=63), "INPUT0: shape"),
        (infer_request(batch=65), "batch size 65"),
        (infer_request(datatype="FP16"), "datatype FP16"),
        (infer_request(name="INPUT1"), "inputs"),
        (infer_request(output="OUTPUT9"), "unknown outputs"),
        (infer_request(claimed=255), "the binary tensors end"),
        (({}, b"[]"), "malformed"),
    ],
)
def test_malformed_requests_are_refused(sent: tuple[dict[str, Any], bytes], message: str) -> None:
    headers, body = sent
    with GoldenServer() as server:
        connection = http.client.HTTPConnection(server.address, timeout=10)
        connection.request("POST", "/v2/models/golden/infer", body, headers)
        answer = connection.getresponse()
        assert answer.status == 400
        assert message in json.loads(answer.read())["error"]
        log = server.log()
    assert (log["rejected"], log["requests"]) == (1, [])
