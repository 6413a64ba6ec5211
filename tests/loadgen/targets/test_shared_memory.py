"""Regions of shared memory and the places in them, without a server."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.kserve.control import Control
from loadgen.sut.channel import State
from loadgen.sut.target import Placement
from loadgen.targets import shared_region as memory_region
from loadgen.targets.http import HttpTarget
from loadgen.targets.open import open_target
from loadgen.targets.shared_memory import SharedMemoryTarget
from loadgen.targets.shared_region import GRANULE, CudaRegion, PosixRegion, abandoned, new_name
from loadgen.targets.shared_slots import (
    Layout,
    RequestEncoding,
    SharedChecker,
    SharedGrpc,
    SharedHttp,
    SharedTensor,
    Slots,
    sharing,
)
from loadgen.transport.http1_head import Head
from servemark.errors import OptionError, ServerError
from servemark.workload import Tensor
from tests.doubles.cuda import FakeCuda
from tests.golden.grpc import GoldenGrpc
from tests.golden.server import GoldenServer
from tests.support.load_config import config
from tests.support.shared_load import IDENTITY, answers, batches, drive

KILLED = """
import os, signal
from loadgen.targets.shared_region import PosixRegion
PosixRegion({name!r}, 64)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Not where other tests have theirs: what is abandoned is anybody's to take away."""
    monkeypatch.setattr(memory_region, "FOLDER", tmp_path)
    return tmp_path


def test_names_are_never_used_twice() -> None:
    assert len({new_name("system") for _ in range(100)}) == 100


def test_a_region_holds_what_is_written_to_it(folder: Path) -> None:
    region = PosixRegion(new_name("system"), 1 << 16)
    assert region.registration == {"key": f"/{region.name}", "offset": 0, "byte_size": 1 << 16}
    for offset in (0, 64, 65_000):
        region.write(offset, offset.to_bytes(8, "big"))
    assert [int.from_bytes(region.read(offset, 8), "big") for offset in (0, 64, 65_000)] == [0, 64, 65_000]
    with pytest.raises(ServerError, match="no shared memory"):
        PosixRegion(region.name, 64)
    assert [path.name for path in folder.iterdir()] == [region.name]
    region.close()
    region.close()
    assert list(folder.iterdir()) == []


def test_memory_that_is_not_there_is_an_error_and_leaves_no_file(folder: Path) -> None:
    with pytest.raises(ServerError, match="has no room for"):
        PosixRegion(new_name("system"), 1 << 60)
    assert list(folder.iterdir()) == []


def test_only_what_a_killed_process_left_is_abandoned(folder: Path) -> None:
    ours, name = PosixRegion(new_name("system"), 64), new_name("system")
    imports = "from pathlib import Path; from loadgen.targets import shared_region"
    code = f"{imports}; shared_region.FOLDER = Path({str(folder)!r})"
    subprocess.run([sys.executable, "-c", f"{code}\n{KILLED.format(name=name)}"], timeout=60, check=False)
    assert {path.name for path in folder.iterdir()} == {ours.name, name}
    assert list(abandoned()) == [("system", name)]
    assert [path.name for path in folder.iterdir()] == [ours.name]
    assert list(abandoned()) == []
    ours.close()


def test_what_another_user_left_is_theirs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / new_name("system")).touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert list(abandoned()) == []
    assert len(list(folder.iterdir())) == 1


def test_places_are_aligned_and_do_not_overlap() -> None:
    layout = Layout("r")
    placed = [layout.add(Tensor("x", "FP32", (7,)), (batch, 7)) for batch in range(1, 9)]
    assert all(each.offset % 64 == 0 for each in placed)
    assert all(first.offset + first.size <= second.offset for first, second in itertools.pairwise(placed))
    assert layout.size >= placed[-1].offset + placed[-1].size


INPUTS = [
    SharedTensor(Tensor("a", "FP32", (2,)), (3, 2), "region", 0, 24),
    SharedTensor(Tensor("b", "INT32", (1,)), (3, 1), "region", 64, 12),
]
OUTPUTS = [
    SharedTensor(Tensor("c", "FP32", (5,)), (3, 5), "region", 10**10, 60),
    SharedTensor(Tensor("d", "BOOL", (1,)), (3, 1), "region", 128, 3),
]


def to(url: str) -> Any:
    return config("ranking_tiny", "--url", url, "--model-name", "m")


def theirs(client: Any) -> dict[str, Any]:
    """The same tensors as tritonclient takes them."""
    inputs, outputs = [], []
    for placed in INPUTS:
        inputs.append(client.InferInput(placed.tensor.name, placed.shape, placed.tensor.datatype))
        inputs[-1].set_shared_memory(placed.region, placed.size, placed.offset)
    for placed in OUTPUTS:
        outputs.append(client.InferRequestedOutput(placed.tensor.name))
        outputs[-1].set_shared_memory(placed.region, placed.size, placed.offset)
    return {"inputs": inputs, "outputs": outputs}


def test_a_request_over_http_is_what_tritonclient_would_send() -> None:
    client = pytest.importorskip("tritonclient.http")
    wire = SharedHttp(to("http://h:1"), Control("http://h:1"))
    request = wire.request(wire.inputs(INPUTS), wire.outputs(OUTPUTS))
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: h:1\r\n")
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")
    text, header_length = client.InferenceServerClient.generate_request_body(**theirs(client))
    expected = json.loads(text)
    # It says what is the default.
    assert [output["parameters"].pop("binary_data") for output in expected["outputs"]] == [False, False]
    assert json.loads(body) == expected
    assert header_length is None


def test_a_request_over_grpc_is_what_tritonclient_would_send() -> None:
    client = pytest.importorskip("tritonclient.grpc")
    from tritonclient.grpc import service_pb2
    from tritonclient.grpc._utils import _get_inference_request

    wire = SharedGrpc(to("grpc://h:1"))
    request = wire.request(wire.inputs(INPUTS), wire.outputs(OUTPUTS))
    assert int.from_bytes(request[1:5], "big") == len(request) - 5
    unset: dict[str, Any] = {"sequence_id": 0, "sequence_start": False, "sequence_end": False, "priority": 0}
    unset |= {"timeout": None, "request_id": "", "parameters": None}
    expected = _get_inference_request(model_name="m", model_version="", **theirs(client), **unset)
    assert service_pb2.ModelInferRequest.FromString(request[5:]) == expected


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"outputs":[{"name":"a","datatype":"FP32","shape":[1,2]}]}', None),
        (b'{"outputs":[{"name":"a","datatype":"FP32","shape":[2,2]}]}', "wrong_shape"),
        (b'{"outputs":[{"name":"a","datatype":"INT32","shape":[1,2]}]}', "wrong_datatype"),
        (b'{"outputs":[]}', "missing_output"),
        (b'{"outputs":[', "malformed_response"),
    ],
)
def test_answers_are_judged_by_what_they_say_of_their_outputs(body: bytes, error: str | None) -> None:
    checker = SharedChecker([Tensor("a", "FP32", (2,))], 1)
    head = Head(200, len(body), None, True)
    assert [checker.judge(head, body) for _ in range(2)] == [error, error]
    assert checker.judge(Head(500, 0, None, True), b"") == "http_500"


def places(count: int) -> Slots:
    wire: RequestEncoding = SharedHttp(to("http://127.0.0.1:9"), Control("http://127.0.0.1:9"))
    layout = Layout(new_name("system"))
    rooms = [(layout.add(Tensor("y", "FP32", (2,)), (1, 2)),) for _ in range(count)]
    return Slots(PosixRegion(layout.region, layout.size), wire, rooms)


def test_the_place_of_a_request_that_was_given_up_is_used_last() -> None:
    free = places(3)
    first, second = free.take(), free.take()
    free.give_back(first, answered=True)
    free.give_back(second, answered=False)
    assert free.take() is first
    assert [free.take(), free.take()][-1] is second
    assert np.array_equal(free.read(second)["y"], np.zeros((1, 2), "f4"))


def test_a_channel_that_never_sent_anything_borrows_nothing() -> None:
    free = places(1)
    target = HttpTarget(to("http://127.0.0.1:9"))
    target.channel_class = sharing(target.channel_class, lambda: free)
    channel = target.connect()
    channel.close()
    assert channel.state is State.CLOSED
    free.take()


BINDINGS = "cuda.bindings.runtime"


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeCuda]:
    monkeypatch.setattr(memory_region, "FOLDER", tmp_path)
    # A path has to fit into a handle's 64 bytes.
    with tempfile.TemporaryDirectory(prefix="gpu-") as folder:
        fake = FakeCuda(Path(folder))
        monkeypatch.setitem(sys.modules, BINDINGS, fake)
        yield fake


def target(url: str, *flags: str) -> SharedMemoryTarget:
    load = ["--url", url, "--model-name", "golden", "--shared-memory", "cuda", "--concurrency", "4", *flags]
    found = open_target(config("golden", *load, lookup=lambda _: IDENTITY))
    assert isinstance(found, SharedMemoryTarget)
    return found


def posts(golden: GoldenServer, action: str) -> list[str]:
    return [path for path in golden.log()["paths"] if path.startswith("POST /v2/cudashared") and path.endswith(action)]


@pytest.mark.parametrize("batch", [3, 8])
def test_requests_carry_only_places_on_the_device(cuda: FakeCuda, batch: int, tmp_path: Path) -> None:
    with GoldenServer() as golden:
        with closing(target(golden.url, "--batch-size", str(batch))) as under_test:
            outcomes = drive(under_test)
            [pointer] = cuda.allocations
            assert under_test.shared_memory == "cuda"
            assert under_test.config["shared_memory_device"] == "cuda:0"
            bodies = {request["bytes"] for request in golden.requests()}
            registered = posts(golden, "/register")
        assert len(registered) == len(posts(golden, "/unregister")) == 1
        assert len(golden.requests()) == len(outcomes)
    assert max(bodies) < 64 * 4 * batch
    found = answers(outcomes, IDENTITY.outputs)
    for number, inputs in enumerate(batches(IDENTITY, batch, 20)):
        assert found[number]["OUTPUT0"] == ("<f4", (batch, 64), inputs["INPUT0"].tobytes())
    # Everything goes up before the first request; down come only the outputs of golden ones, which all are here.
    copies = [call for call in cuda.calls if call.startswith("cudaMemcpy")]
    up, down = "cudaMemcpy cudaMemcpyHostToDevice", "cudaMemcpy cudaMemcpyDeviceToHost"
    assert copies == [up] * 1024 + [down] * len(outcomes)
    assert cuda.calls[-1] == "cudaFree"
    assert not cuda.allocations
    assert pointer
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("streaming", [False, True], ids=["unary", "streaming"])
def test_the_same_over_grpc(cuda: FakeCuda, streaming: bool) -> None:
    with GoldenGrpc() as golden:
        with closing(target(golden.url, *(["--streaming"] * streaming))) as under_test:
            outcomes = drive(under_test)
        log = golden.log()
    assert (log["requests"], log["changes"]) == (len(outcomes), ["cuda register", "cuda unregister"])
    found = answers(outcomes, IDENTITY.outputs)
    for number, inputs in enumerate(batches(IDENTITY, 1, 20)):
        assert found[number]["OUTPUT0"] == ("<f4", (1, 64), inputs["INPUT0"].tobytes())
    assert not cuda.allocations


def test_outputs_of_ordinary_requests_stay_on_the_device(cuda: FakeCuda) -> None:
    with GoldenServer() as golden, closing(target(golden.url)) as under_test:
        outcomes = drive(under_test, golden=False)
    assert {outcome.error for outcome in outcomes} == {None}
    assert "cudaMemcpy cudaMemcpyDeviceToHost" not in cuda.calls


def test_memory_is_on_the_gpu_that_the_model_runs_on(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    with GoldenServer() as golden:
        for device, expected in (("cuda:1", 1), ("cuda:1,cuda:0", 1), ("cpu", 0), (None, 0)):
            monkeypatch.setattr(Control, "placement", lambda *_, at=device: Placement("golden", at, None))
            with closing(target(golden.url)) as under_test:
                under_test.prepare()
                under_test.payloads(None)
                assert cuda.device == expected
                assert under_test.config["shared_memory_device"] == f"cuda:{expected}"


def test_a_server_that_refuses_the_handle(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCuda, "CUDA_IPC_HANDLE_SIZE", 32)
    words = r"(?s)cudasharedmemory/region/.*invalid args.*--ipc=host"
    with GoldenServer() as golden:
        with closing(target(golden.url)) as under_test, pytest.raises(ServerError, match=words):
            drive(under_test)
        assert golden.requests() == []
    assert not cuda.allocations


def test_allocations_are_whole_granules_and_given_back(cuda: FakeCuda, tmp_path: Path) -> None:
    region = CudaRegion("r", 100, 1)
    assert (region.size, cuda.device) == (GRANULE, 1)
    described = region.registration
    assert (described["device_id"], described["byte_size"], len(described["raw_handle"])) == (1, GRANULE, 64)
    region.write(64, b"abc")
    assert region.read(63, 5) == b"\0abc\0"
    region.close()
    region.close()
    assert cuda.calls.count("cudaFree") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_cuda_says_is_shown(cuda: FakeCuda, tmp_path: Path) -> None:
    cuda.memory = GRANULE
    with pytest.raises(ServerError, match=r"cudaMalloc of 6 MB on cuda:0: fake .* \(cudaErrorMemoryAllocation\)"):
        CudaRegion("r", 3 * GRANULE - 1, 0)
    with pytest.raises(ServerError, match=r"cudaSetDevice .* on cuda:2: .*InvalidDevice"):
        CudaRegion("r", 1, 2)
    region = CudaRegion("r", 1, 0)
    with pytest.raises(ServerError, match="cudaMemcpy"):
        region.write(region.size, b"x")
    region.close()
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu_or_the_package(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.devices = 0
    with pytest.raises(OptionError, match=r"(?s)no GPU can be used here.*cudaErrorNoDevice.*--shared-memory system"):
        target("http://127.0.0.1:9").prepare()
    monkeypatch.setitem(sys.modules, BINDINGS, None)
    with pytest.raises(OptionError, match=r"(?s)CUDA bindings.*pip install cuda-bindings"):
        target("http://127.0.0.1:9").prepare()


def test_the_double_speaks_as_nvidias_module_does(tmp_path: Path) -> None:
    real: Any = pytest.importorskip(BINDINGS)
    fake = FakeCuda(tmp_path, devices=0, memory=0)
    assert real.CUDA_IPC_HANDLE_SIZE == fake.CUDA_IPC_HANDLE_SIZE
    assert real.cudaIpcMemHandle_t().getPtr()
    for kind in ("cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost"):
        assert int(getattr(real.cudaMemcpyKind, kind)) == int(getattr(fake.cudaMemcpyKind, kind))
    for error in fake.cudaError_t:
        same = getattr(real.cudaError_t, error.name)
        assert (int(same), same.name) == (int(error), error.name)
        (code, words), (_, ours) = real.cudaGetErrorString(same), fake.cudaGetErrorString(error)
        assert (code, type(words)) == (real.cudaError_t.cudaSuccess, type(ours))
    # A machine without a GPU fails all of them, one with a GPU those that make no sense.
    host = np.zeros(8, np.uint8).ctypes.data
    calls: dict[str, tuple[int, ...]] = {
        "cudaSetDevice": (10**6,),
        "cudaMalloc": (1 << 62,),
        "cudaIpcGetMemHandle": (host,),
        "cudaFree": (host,),
    }
    for name, arguments in calls.items():
        theirs, ours = getattr(real, name)(*arguments), getattr(fake, name)(*arguments)
        assert len(theirs) == len(ours), name
        assert theirs[1:] == ours[1:], name
        assert isinstance(theirs[0], real.cudaError_t)
        assert real.cudaError_t.cudaSuccess not in {theirs[0], ours[0]}
