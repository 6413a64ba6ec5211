"""Start and end of servers: obstacles to a start, the order of ends, the remains of a dead server."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from servemark.errors import ArtifactError, ServerError
from servemark.repository.entry import Entry
from servers import open_server
from servers.launch.process import Command
from servers.launch.server import Server, ServerJob
from tests.support.locust_run import DEADLINE_S, alive, until
from tests.support.small_models import affine, artifact_of
from tests.support.triton import START_S, triton_only

pytestmark = triton_only

MODELS = ["affine_onnxruntime"]
CACHED = "glibc.malloc.tcache_count=65535"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that can be served and one whose file is cut off."""
    root = tmp_path_factory.mktemp("model_repo")
    affine(root, "onnxruntime")
    damaged = root / "damaged_onnxruntime" / "1" / "model.onnx"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(artifact_of(root, "onnxruntime").read_bytes()[:40])
    (damaged.parent.parent / "export.json").write_text("{}")
    config = (root / "affine_onnxruntime" / "config.pbtxt").read_text()
    (damaged.parent.parent / "config.pbtxt").write_text(config.replace("affine_", "damaged_"))
    return root


def regions(pid: int) -> list[Path]:
    return list(Path("/dev/shm").glob(f"servemark_{pid}_*"))


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
    assert error.value.fix == f"servemark export damaged --engine onnxruntime --force --model-repository {repository}"
    assert time.monotonic() - started < START_S, "it did not wait for the time-out"
    assert set(regions(os.getpid())) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("dims: [8]", "dims: []"), "must specify 'dims'"),
        (("backend:", "no_such_field: 1 backend:"), "no_such_field"),
        (('"affine_onnxruntime"', '"other"'), "directory name must equal model name"),
        (("backend:", "version_policy { specific { versions: 7 } } backend:"), "at least one version"),
    ],
    ids=["no dims", "no configuration", "another name", "no version"],
)
def test_a_configuration_that_triton_refuses_ends_the_wait(
    repository: Path, tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    config = (repository / "affine_onnxruntime" / "config.pbtxt").read_text()
    assert change[0] in config
    Entry(repository, "affine", "onnxruntime").link(tmp_path / "affine_onnxruntime", config.replace(*change))
    started = time.monotonic()
    server = open_server("embedded", tmp_path, MODELS, start_timeout_s=START_S)
    with pytest.raises(ArtifactError, match=f"Triton cannot load affine_onnxruntime: .*{words}") as error, server:
        pass
    assert "affine_onnxruntime/config.pbtxt" in str(error.value.fix)
    assert time.monotonic() - started < START_S, "it did not wait for the time-out"


def test_model_that_is_not_there(repository: Path) -> None:
    with pytest.raises(ArtifactError) as error:
        open_server("embedded", repository, ["resnet50_onnxruntime"]).start()
    assert error.value.fix == f"servemark export resnet50 --engine onnxruntime --model-repository {repository}"


def test_server_that_never_gets_ready_is_ended(repository: Path) -> None:
    server = Server("test", lambda _: Command(["sleep", "600"]), ServerJob(repository, MODELS), start_timeout_s=0.3)
    with pytest.raises(ServerError, match=r"not ready after 0\.3 s"), server:
        pass
    assert not [child for child in psutil.Process().children(recursive=True) if child.name() == "sleep"]


def test_server_that_dies_at_the_start_shows_its_log(repository: Path) -> None:
    dies = Command(["sh", "-c", "echo the disk is full >&2; exit 7"])
    server = Server("test", lambda _: dies, ServerJob(repository, MODELS))
    with pytest.raises(ServerError, match=r"(?s)exit status 7.*the disk is full"), server:
        pass


def test_server_that_ignores_sigterm_is_killed_with_its_children(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.launch.process.GRACE_S", 0.5)
    stubborn = Command(["sh", "-c", "trap '' TERM; sleep 600 & sleep 600 & wait; wait"])
    server = Server("test", lambda _: stubborn, ServerJob(repository, MODELS))
    server.start()
    members: list[psutil.Process] = []

    def started() -> bool:
        members[:] = [p for p in psutil.Process().children(recursive=True) if p.name() in {"sh", "sleep"}]
        return len(members) == 3

    until(started, "all three")
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


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])  # it takes no others, so each kills it
def test_nothing_outlives_its_owner(
    owner: tuple["subprocess.Popen[str]", list[psutil.Process]], end: signal.Signals
) -> None:
    process, servers = owner
    assert {"tritonserver", "triton_python_backend_stub"} <= {each.exe().rpartition("/")[2] for each in servers}
    assert regions(process.pid)
    process.send_signal(end)
    process.wait(DEADLINE_S)
    until(lambda: not any(map(alive, servers)), "their end")
    until(lambda: not regions(process.pid), "the end of their shared memory")


def kill_triton() -> None:
    """Kill this process's only Triton, and wait until its stubs have ended too."""
    [triton] = (each for each in psutil.Process().children(recursive=True) if each.exe().endswith("/tritonserver"))
    members = [triton, *triton.children()]
    triton.kill()
    until(lambda: not any(map(alive, members)), "their end")


def test_dead_server_is_noticed_and_cleared(repository: Path) -> None:
    before = set(regions(os.getpid()))
    with open_server("embedded", repository, MODELS, start_timeout_s=START_S) as server:
        kill_triton()
        with pytest.raises(ServerError, match="exit status 137"):
            server.wait_ready(20)
        assert server.log is not None
        assert "Started HTTPService" in server.log.read_text()
        assert set(regions(os.getpid())) == before


@pytest.mark.parametrize(
    ("more", "kept"),
    [((), "glibc.malloc.arena_max=2"), (("--trace-config=rate=1",), "glibc.malloc.arena_max=2:" + CACHED)],
)
def test_a_server_that_traces_keeps_freed_memory_with_its_thread(
    more: tuple[str, ...], kept: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    says = [sys.executable, "-c", "import os; print(os.environ['GLIBC_TUNABLES'])"]
    server = Server("own", lambda _: Command(says), ServerJob(tmp_path, [], more=more))
    server.start()
    try:
        log = server.log
        assert log is not None
        until(lambda: log.read_text() == f"{kept}\n", "the process's words")
    finally:
        server.stop()
