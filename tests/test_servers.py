"""Real Tritons from the wheel: they serve, they say what is wrong, and nothing is left of them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import psutil
import pytest
import tritonclient.utils

from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.models._spec import NUMPY_DTYPES
from servers import Server, attach, docker, embedded, modes, native, open_server
from servers._launch import Job, Launched
from servers._process import Command
from tests.small_models import DATATYPES, NAMES, TABLE, FloatArray, affine, artifact_of, expected, lookup, passthrough

pytestmark = [
    pytest.mark.skipif(embedded.missing() is not None, reason=f"{embedded.missing()}"),
    pytest.mark.usefixtures("own_logs"),
]

MODELS = ["affine_onnxruntime", "affine_pytorch", "affine_openvino", "affine_tensorflow"]
SPECIAL = ["lookup_onnxruntime", "passthrough_onnxruntime"]
START_S = 90.0
CLIENTS = ["http", "grpc"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model_repo")
    affine(root, "onnxruntime", queue_delay_us=100_000)  # long enough that requests meet in a dynamic batch
    affine(root, "pytorch", instances=2)
    affine(root, "openvino")
    affine(root, "tensorflow")
    lookup(root, queue_delay_us=100_000)
    passthrough(root, queue_delay_us=0)
    damaged = root / "damaged_onnxruntime" / "1" / "model.onnx"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(artifact_of(root, "onnxruntime").read_bytes()[:40])
    config = (root / "affine_onnxruntime" / "config.pbtxt").read_text()
    (damaged.parent.parent / "config.pbtxt").write_text(config.replace("affine_", "damaged_"))
    return root


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    with open_server("embedded", repository, [*MODELS, *SPECIAL], start_timeout_s=START_S) as server:
        yield server


def infer(server: Server, protocol: str, model: str, x: FloatArray) -> dict[str, FloatArray]:
    import tritonclient.grpc
    import tritonclient.http

    library: ModuleType = {"http": tritonclient.http, "grpc": tritonclient.grpc}[protocol]
    with library.InferenceServerClient(getattr(server, protocol)) as client:
        tensor = library.InferInput("X", x.shape, "FP32")
        tensor.set_data_from_numpy(x)
        answer = client.infer(model, [tensor])
        return {name: answer.as_numpy(name) for name in NAMES}


def rows(seed: int, count: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((count, 8), dtype=np.float32)


def metrics(server: Server) -> str:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as page:
        return str(page.read().decode())


def metric(server: Server, name: str, model: str) -> float:
    lines = [line for line in metrics(server).splitlines() if line.startswith(name) and f'model="{model}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)  # failures have a line for each reason


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    connections = process.net_connections("tcp")
    return {(c.laddr.ip, c.laddr.port) for c in connections if c.laddr and c.status == psutil.CONN_LISTEN}


def regions(pid: int) -> list[Path]:
    return list(Path("/dev/shm").glob(f"servemark_{pid}_*"))


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("protocol", CLIENTS)
def test_answers_equal_numpy(server: Server, protocol: str, model: str, count: int) -> None:
    x = rows(count, count)
    answer = infer(server, protocol, model, x)
    for name, wanted in expected(x).items():
        np.testing.assert_allclose(answer[name], wanted, rtol=1e-5, atol=1e-5)


def test_requests_of_a_dynamic_batch_get_their_own_answers(server: Server) -> None:
    model = MODELS[0]
    executions = metric(server, "nv_inference_exec_count", model)
    batches = [rows(100 + i, 1 + i % 3) for i in range(24)]
    with ThreadPoolExecutor(len(batches)) as pool:
        answers = list(pool.map(lambda x: infer(server, "http", model, x), batches))
    for x, answer in zip(batches, answers, strict=True):
        np.testing.assert_allclose(answer["SCORES"], expected(x)["SCORES"], rtol=1e-5, atol=1e-5)
    assert metric(server, "nv_inference_exec_count", model) - executions < len(batches)  # they really met


def test_one_bad_request_does_not_fail_its_neighbours(server: Server) -> None:
    import tritonclient.http as library

    def look_up(number: int) -> FloatArray | str:
        with library.InferenceServerClient(server.http) as client:
            tensor = library.InferInput("ID", (1, 1), "INT64")
            tensor.set_data_from_numpy(np.array([[number]]))
            try:
                row: FloatArray = client.infer("lookup_onnxruntime", [tensor]).as_numpy("ROW")
            except tritonclient.utils.InferenceServerException as error:
                return str(error)
            return row

    executions = metric(server, "nv_inference_exec_count", "lookup_onnxruntime")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(look_up, [0, 1, 2, 99, 3, 1, 0, 2]))
    assert isinstance(answers[3], str)
    assert "99" in answers[3]
    for number, answer in zip([0, 1, 2, 3, 1, 0, 2], [*answers[:3], *answers[4:]], strict=True):
        np.testing.assert_array_equal(answer, TABLE[[number]])
    executions = metric(server, "nv_inference_exec_count", "lookup_onnxruntime") - executions
    assert executions < len(answers)  # they did share a batch


def test_every_datatype_passes_unchanged(server: Server) -> None:
    import tritonclient.http as library

    rng = np.random.default_rng(1)
    arrays = {name: rng.integers(0, 100, (3, 2, 3)).astype(NUMPY_DTYPES[name]) for name in DATATYPES}
    tensors = []
    for name, array in arrays.items():
        tensors.append(library.InferInput(f"IN_{name}", array.shape, name))
        tensors[-1].set_data_from_numpy(array)
    with library.InferenceServerClient(server.http) as client:
        answer = client.infer("passthrough_onnxruntime", tensors)
    for name, array in arrays.items():
        got = answer.as_numpy(f"OUT_{name}")
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)


def test_only_the_outputs_asked_for_are_sent(server: Server) -> None:
    import tritonclient.http as library

    with library.InferenceServerClient(server.http) as client:
        tensor = library.InferInput("X", (1, 8), "FP32")
        tensor.set_data_from_numpy(rows(1, 1))
        answer = client.infer(MODELS[1], [tensor], outputs=[library.InferRequestedOutput("TOTAL")])
    assert [output["name"] for output in answer.get_response()["outputs"]] == ["TOTAL"]


def test_what_runs_is_published(server: Server) -> None:
    labels = 'device="cpu",engine="onnxruntime",model="affine_onnxruntime",provider="CPUExecutionProvider"'
    assert f"servemark_engine_info{{{labels}}} 1" in metrics(server)


def test_server_is_on_loopback_only(server: Server) -> None:
    ports = {int(endpoint.rpartition(":")[2]) for endpoint in (server.http, server.grpc, str(server.metrics))}
    addresses = [address for child in psutil.Process().children(recursive=True) for address in listening(child)]
    hosts = {host.removeprefix("::ffff:") for host, port in addresses if port in ports}
    assert hosts == {"127.0.0.1"}


@pytest.mark.parametrize("protocol", CLIENTS)
def test_attach_to_a_running_server(server: Server, protocol: str) -> None:
    with attach(getattr(server, protocol), MODELS, protocol=protocol) as remote:
        assert infer(remote, protocol, MODELS[1], rows(1, 1))
    server.check()  # leaving the context stops nothing


@pytest.mark.parametrize("protocol", CLIENTS)
def test_attach_where_a_model_is_not_served(server: Server, protocol: str) -> None:
    remote = attach(getattr(server, protocol), ["resnet50_onnxruntime"], protocol=protocol)
    with pytest.raises(ServerError, match="resnet50_onnxruntime") as error:
        remote.wait_ready(0.2)
    assert error.value.fix == "servemark serve resnet50 --engine onnxruntime"


@pytest.mark.parametrize("protocol", CLIENTS)
def test_attach_where_nobody_listens(protocol: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        remote = attach(f"http://127.0.0.1:{holder.getsockname()[1]}", MODELS[:1], protocol=protocol)
        with pytest.raises(ServerError, match=r"no .* server answers") as error:
            remote.wait_ready(10)
    assert error.value.fix == "servemark serve affine --engine onnxruntime"


@pytest.mark.parametrize("url", ["localhost", "localhost:http", "", "http://:8000"])
def test_attach_to_a_malformed_url(url: str) -> None:
    with pytest.raises(OptionError):
        attach(url, MODELS)


def test_port_in_use_names_its_holder(repository: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        server = open_server("embedded", repository, MODELS, grpc_port=port)
        with pytest.raises(ServerError, match=rf":{port}.*pid {os.getpid()}") as error:
            server.start()
    assert "--grpc-port" in str(error.value.fix)
    assert server.log is None  # nothing was started


def test_model_that_cannot_be_loaded(repository: Path) -> None:
    before, started = set(regions(os.getpid())), time.monotonic()
    server = open_server("embedded", repository, ["damaged_onnxruntime"], start_timeout_s=START_S)
    with pytest.raises(ServerError, match=r"Triton cannot load damaged_onnxruntime: .*model\.onnx") as error, server:
        pass
    assert error.value.fix == "servemark export damaged --engine onnxruntime --force"
    assert time.monotonic() - started < START_S / 3
    assert set(regions(os.getpid())) == before


def test_model_that_is_not_there(repository: Path) -> None:
    with pytest.raises(ArtifactError) as error:
        open_server("embedded", repository, ["resnet50_onnxruntime"]).start()
    assert error.value.fix == "servemark export resnet50 --engine onnxruntime"


def test_unknown_mode() -> None:
    with pytest.raises(OptionError, match="podman"):
        open_server("podman", Path(), [])


def test_a_mode_that_is_missing_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match="no tritonserver on PATH"):
        open_server("native", tmp_path, [])
    assert {mode.name: bool(mode.missing) for mode in modes()} == {"embedded": False, "native": True, "docker": True}


def test_server_that_never_gets_ready_is_ended(repository: Path) -> None:
    server = Launched("test", lambda _: Command(["sleep", "600"]), repository, MODELS, start_timeout_s=0.3)
    with pytest.raises(ServerError, match=r"not ready after 0\.3 s"), server:
        pass
    assert not [child for child in psutil.Process().children(recursive=True) if child.name() == "sleep"]


def test_server_that_dies_at_the_start_shows_its_log(repository: Path) -> None:
    dies = Command(["sh", "-c", "echo the disk is full >&2; exit 7"])
    server = Launched("test", lambda _: dies, repository, MODELS)
    with pytest.raises(ServerError, match=r"(?s)exit status 7.*the disk is full"), server:
        pass


def test_server_that_ignores_sigterm_is_killed_with_its_children(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers._process.GRACE_S", 0.5)
    stubborn = Command(["sh", "-c", "trap '' TERM; sleep 600 & sleep 600 & wait; wait"])
    server = Launched("test", lambda _: stubborn, repository, MODELS)
    server.start()
    members: list[psutil.Process] = []

    def started() -> bool:
        members[:] = [p for p in psutil.Process().children(recursive=True) if p.name() in {"sh", "sleep"}]
        return len(members) == 3

    assert until(started)
    server.__exit__(None, None, None)
    assert not [process for process in members if alive(process)]
    assert server.log is not None
    assert not server.log.parent.exists()


PARENT = """
import sys, time
from pathlib import Path
from servers import open_server
with open_server("embedded", Path(sys.argv[1]), ["affine_onnxruntime"], start_timeout_s=90) as server:
    print(server.http, server.log, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def owner(repository: Path) -> Iterator[tuple["subprocess.Popen[str]", list[psutil.Process]]]:
    """A process that owns a running server, and the server's processes."""
    process = subprocess.Popen([sys.executable, "-c", PARENT, str(repository)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process, psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_its_owner(
    owner: tuple["subprocess.Popen[str]", list[psutil.Process]], end: signal.Signals
) -> None:
    process, servers = owner
    assert {"tritonserver", "triton_python_backend_stub"} <= {each.exe().rpartition("/")[2] for each in servers}
    assert regions(process.pid)
    process.send_signal(end)
    process.wait(30)
    assert until(lambda: not any(alive(each) for each in servers))
    assert until(lambda: not regions(process.pid))


def kill_triton(server: Server) -> None:
    port = int(server.http.rpartition(":")[2])
    family = psutil.Process().children(recursive=True)
    triton = next(each for each in family if port in {address[1] for address in listening(each)})
    members = [triton, *triton.children()]
    triton.kill()
    assert until(lambda: not any(alive(each) for each in members))


def test_dead_server_is_noticed_and_cleared(repository: Path) -> None:
    before = set(regions(os.getpid()))
    with open_server("embedded", repository, [MODELS[0]], start_timeout_s=START_S) as server:
        kill_triton(server)
        with pytest.raises(ServerError, match="exit status 137"):
            server.wait_ready(20)
        assert server.log is not None
        assert "Started HTTPService" in server.log.read_text()
        assert set(regions(os.getpid())) == before


def test_regions_of_a_dead_servemark_are_swept_at_the_next_start() -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    stale, ours = (Path("/dev/shm") / f"servemark_{pid}_0_test" for pid in (dead.pid, os.getpid()))
    stale.touch()
    ours.touch()
    try:
        embedded._sweep()
        assert (stale.exists(), ours.exists()) == (False, True)
    finally:
        stale.unlink(missing_ok=True)
        ours.unlink()


@pytest.mark.parametrize("mode", [native, docker])
def test_other_modes_serve_the_same_models_on_the_same_ports(mode: ModuleType, tmp_path: Path) -> None:
    ports = {"--http-port": 1, "--grpc-port": 2, "--metrics-port": 3}
    argv = mode.command(Job(tmp_path, MODELS, "127.0.0.1", ports, tmp_path)).argv
    wanted = {f"--load-model={model}" for model in MODELS} | {f"{flag}={port}" for flag, port in ports.items()}
    assert wanted | {"--http-address=127.0.0.1"} <= set(argv)
    repository = next(flag for flag in argv if flag.startswith("--model-repository=")).partition("=")[2]
    assert repository == str(tmp_path) or f"type=bind,source={tmp_path},target={repository},readonly" in argv
