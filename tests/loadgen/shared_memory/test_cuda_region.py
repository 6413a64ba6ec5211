"""Tensors in a GPU's memory, up to the calls of CUDA: those are answered by a double that files stand behind."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.shared_memory import region as memory_region
from loadgen.shared_memory.region import GRANULE, CudaRegion
from loadgen.sut.target import Placement
from loadgen.targets.open import open_target
from loadgen.targets.shared_memory import SharedMemoryTarget
from servemark.errors import OptionError, ServerError
from tests.doubles.cuda import FakeCuda
from tests.golden.grpc import GoldenGrpc
from tests.golden.server import GoldenServer
from tests.support.load_config import config
from tests.support.shared_load import IDENTITY, answers, batches, drive

MODULE = "cuda.bindings.runtime"


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeCuda]:
    monkeypatch.setattr(memory_region, "FOLDER", tmp_path)
    # A path has to fit into a handle's 64 bytes.
    with tempfile.TemporaryDirectory(prefix="gpu-") as folder:
        fake = FakeCuda(Path(folder))
        monkeypatch.setitem(sys.modules, MODULE, fake)
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
        under_test = target(golden.url, "--batch-size", str(batch))
        try:
            outcomes = drive(under_test)
            [pointer] = cuda.allocations
            assert under_test.shared_memory == "cuda"
            assert under_test.config["shared_memory_device"] == "cuda:0"
            bodies = {request["bytes"] for request in golden.requests()}
            registered = posts(golden, "/register")
        finally:
            under_test.close()
        assert len(registered) == len(posts(golden, "/unregister")) == 1
        assert len(golden.requests()) == len(outcomes)
    assert max(bodies) < 64 * 4 * batch
    found = answers(outcomes, IDENTITY.outputs)
    for number, inputs in enumerate(batches(IDENTITY, batch, 20)):
        assert found[number]["OUTPUT0"] == ("<f4", (batch, 64), inputs["INPUT0"].tobytes())
    # Everything goes up before the first request; down come only the outputs of golden ones, which all are here.
    copies = [call for call in cuda.calls if call.startswith("cudaMemcpy")]
    assert copies == ["cudaMemcpy cudaMemcpyHostToDevice"] * 1024 + ["cudaMemcpy cudaMemcpyDeviceToHost"] * len(
        outcomes
    )
    assert cuda.calls[-1] == "cudaFree"
    assert not cuda.allocations
    assert pointer
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("streaming", [False, True], ids=["unary", "streaming"])
def test_the_same_over_grpc(cuda: FakeCuda, streaming: bool) -> None:
    with GoldenGrpc() as golden:
        under_test = target(golden.url, *(["--streaming"] * streaming))
        try:
            outcomes = drive(under_test)
        finally:
            under_test.close()
        log = golden.log()
    assert (log["requests"], log["changes"]) == (len(outcomes), ["cuda register", "cuda unregister"])
    found = answers(outcomes, IDENTITY.outputs)
    for number, inputs in enumerate(batches(IDENTITY, 1, 20)):
        assert found[number]["OUTPUT0"] == ("<f4", (1, 64), inputs["INPUT0"].tobytes())
    assert not cuda.allocations


def test_outputs_of_ordinary_requests_stay_on_the_device(cuda: FakeCuda) -> None:
    with GoldenServer() as golden:
        under_test = target(golden.url)
        try:
            outcomes = drive(under_test, golden=False)
        finally:
            under_test.close()
    assert {outcome.error for outcome in outcomes} == {None}
    assert "cudaMemcpy cudaMemcpyDeviceToHost" not in cuda.calls


def test_memory_is_on_the_gpu_that_the_model_runs_on(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    from loadgen.kserve.control import Control

    with GoldenServer() as golden:
        for device, expected in (("cuda:1", 1), ("cuda:1,cuda:0", 1), ("cpu", 0), (None, 0)):
            monkeypatch.setattr(Control, "placement", lambda *_, at=device: Placement("golden", at, None))
            under_test = target(golden.url)
            try:
                under_test.prepare()
                under_test.payloads(None)
                assert cuda.device == expected
                assert under_test.config["shared_memory_device"] == f"cuda:{expected}"
            finally:
                under_test.close()


def test_a_server_that_refuses_the_handle(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCuda, "CUDA_IPC_HANDLE_SIZE", 32)
    with GoldenServer() as golden:
        under_test = target(golden.url)
        try:
            with pytest.raises(ServerError, match=r"(?s)cudasharedmemory/region/.*invalid args.*--ipc=host"):
                drive(under_test)
        finally:
            under_test.close()
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
    monkeypatch.setitem(sys.modules, MODULE, None)
    with pytest.raises(OptionError, match=r"(?s)CUDA bindings.*pip install cuda-bindings"):
        target("http://127.0.0.1:9").prepare()


def test_the_double_speaks_as_nvidias_module_does(tmp_path: Path) -> None:
    real: Any = pytest.importorskip(MODULE)
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
