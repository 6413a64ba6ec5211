"""Ways to start a Triton: what each is told, why one cannot be used, and the remains of a dead embedded one."""

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servemark.errors import OptionError, ServerError
from servers import find_modes, modes, open_server
from servers.launch.server import ServerJob
from servers.modes import Starter, docker, native
from tests.support.triton import triton_only

pytestmark = triton_only

MODEL = "affine_onnxruntime"


def test_unknown_mode() -> None:
    with pytest.raises(OptionError, match="podman"):
        open_server("podman", Path(), [])


def test_a_mode_that_is_missing_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match="no tritonserver on PATH"):
        open_server("native", tmp_path, [])
    missing = {name: bool(error) for name, error in find_modes().items()}
    assert missing == {"embedded": False, "native": True, "docker": True}


GUARDED = """
import sys
from pathlib import Path
from typing import Any
from servers.launch.guard import lock
lock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def shared_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in the place of /dev/shm, with a region of a dead servemark."""
    monkeypatch.setattr(modes, "SHARED_MEMORY", tmp_path)
    (tmp_path / "servemark_1_0a_region").touch()
    return tmp_path


def test_regions_of_a_dead_servemark_are_swept_at_the_next_start(shared_memory: Path) -> None:
    """Whose guard is gone, not whose number is: containers with a /dev/shm in common count their processes from 1."""
    claim = shared_memory / "servemark_1_0a_claim"
    others = {"servemark_load_system_1_0b", "servemark_notes", "psm_1"}
    for name in ("servemark_1_0b_region", *others):
        (shared_memory / name).touch()
    command = [sys.executable, "-c", GUARDED, str(claim)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guard:
        assert guard.stdout is not None
        assert guard.stdout.readline() == b"locked\n"
        modes._sweep()
        assert {path.name for path in shared_memory.iterdir()} == {"servemark_1_0a_region", claim.name, *others}
        guard.kill()
    modes._sweep()
    assert {path.name for path in shared_memory.iterdir()} == others


def refuse(_: Path, **__: object) -> None:
    raise PermissionError


@pytest.mark.parametrize(
    ("owner", "name", "value"), [(os, "geteuid", lambda: os.getuid() + 1), (Path, "unlink", refuse)]
)
def test_regions_of_another_user_stay_and_do_not_stop_a_start(
    shared_memory: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, value: object
) -> None:
    """Those of a sticky directory cannot be removed."""
    monkeypatch.setattr(owner, name, value)
    modes._sweep()
    assert len(list(shared_memory.iterdir())) == 1


def job(folder: Path, *, reloadable: bool = False) -> ServerJob:
    """A job as the server makes it: a repository of links."""
    (folder / "a,b" / MODEL).mkdir(parents=True)
    (folder / "models").mkdir()
    (folder / "models" / MODEL).symlink_to(folder / "a,b" / MODEL)
    ports = {"--http-port": 1, "--grpc-port": 2, "--metrics-port": 3}
    return ServerJob(folder / "models", [MODEL], "127.0.0.1", ports, reloadable, scratch=folder)


@pytest.mark.parametrize("mode", [native, docker])
def test_other_modes_serve_the_same_models_on_the_same_ports(mode: Starter, tmp_path: Path) -> None:
    planned = mode.command(job(tmp_path))
    argv = planned.argv
    assert planned.contained == (mode is docker)
    assert {"--http-port=1", "--grpc-port=2", "--metrics-port=3", "--http-address=127.0.0.1"} <= set(argv)
    repository = next(flag for flag in argv if flag.startswith("--model-repository=")).partition("=")[2]
    if mode is native:
        assert Path(repository, MODEL).is_dir()
    else:
        mounts = [next(csv.reader([flag.removeprefix("--mount=")])) for flag in argv if flag.startswith("--mount=")]
        source, target = tmp_path / "a,b" / MODEL, f"{repository}/{MODEL}"
        assert mounts == [["type=bind", f"source={source}", f"target={target}", "readonly"]]


@pytest.mark.parametrize("mode", [native, docker])
def test_other_modes_restrict_model_control(mode: Starter, tmp_path: Path) -> None:
    fixed, reloadable = (job(tmp_path / name, reloadable=name == "tune") for name in ("serve", "tune"))
    assert "--model-control-mode=none" in mode.command(fixed).argv
    assert f"--http-restricted-api=trace,logging:servemark-key={fixed.key}" in mode.command(fixed).argv
    restricted = f"model-repository,trace,logging:servemark-key={reloadable.key}"
    wanted = {"--model-control-mode=explicit", f"--load-model={MODEL}", f"--http-restricted-api={restricted}"}
    assert wanted | {f"--grpc-restricted-protocol={restricted}"} <= set(mode.command(reloadable).argv)
    assert fixed.key != reloadable.key
    assert fixed.key not in repr(fixed)
