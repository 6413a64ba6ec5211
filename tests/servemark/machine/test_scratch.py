"""Scratch folders after a SIGKILL, of living owners, and of others."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from servemark.machine import scratch
from servemark.machine.scratch import Scratch, remove_abandoned, scratch_folder

OWNER_OF_ONE = """
import time
from servemark.machine.scratch import Scratch
print(Scratch("triton").path, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_process_left_goes_with_the_next_start(folder: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER_OF_ONE], stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        assert owner.stdout is not None
        left = Path(owner.stdout.readline().strip())
        (left / "models").mkdir()
        remove_abandoned()
        assert left.is_dir(), "its owner lives"
        owner.send_signal(signal.SIGKILL)
        owner.wait(20)
    assert left.is_dir()
    with scratch_folder("tuning") as path:
        assert path.is_dir()
        assert not left.exists()
    assert not path.exists()


def test_what_was_kept_stays() -> None:
    kept = Scratch("triton")
    (kept.path / "triton.log").write_text("why")
    kept.keep()
    remove_abandoned()
    assert (kept.path / "triton.log").read_text() == "why"


def test_another_users_folder_and_links_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = folder / "servemark-triton-x"
    abandoned.mkdir()
    (abandoned / ".owner").touch()
    (folder / "precious").mkdir()
    (folder / "precious" / ".owner").touch()
    (folder / "servemark-link").symlink_to(folder / "precious")
    with monkeypatch.context() as other:
        other.setattr("os.geteuid", lambda: os.getuid() + 1)
        remove_abandoned()
        assert abandoned.is_dir()
    remove_abandoned()
    assert not abandoned.exists()
    assert (folder / "precious").is_dir()


def test_tritons_own_folders_go_where_no_server_of_theirs_lives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, made_s in (("python_env_old", 100.0), ("python_env_used", 300.0), ("python_env_full", 100.0)):
        (folder / name).mkdir()
        if name.endswith("full"):
            (folder / name / "file").touch()
        os.utime(folder / name, (made_s, made_s))
    monkeypatch.setattr(scratch, "_first_server_s", lambda: 200.0)
    remove_abandoned()
    assert sorted(path.name for path in folder.iterdir()) == ["python_env_full", "python_env_used"]
