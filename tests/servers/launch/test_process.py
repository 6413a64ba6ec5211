"""A process under guard: what is run after its end, and what is said of one that has ended by itself."""

from pathlib import Path

import pytest

from servemark.errors import ServerError
from servers.launch import process
from servers.launch.process import Command, Process
from tests.support.locust_run import until


def test_what_is_run_afterwards_has_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such as `docker compose down`."""
    monkeypatch.setattr(process, "GRACE_S", 0.1)
    afterwards = ["sh", "-c", f"sleep 0.5; touch {tmp_path}/removed"]
    found = Process(Command(["sh", "-c", "echo up; exec sleep 600"], afterwards=afterwards), tmp_path / "log")
    until(lambda: found.log.read_text() == "up\n", "its start")
    found.stop()
    assert (tmp_path / "removed").exists()


def test_one_that_has_ended_is_named(tmp_path: Path) -> None:
    found = Process(Command(["/bin/sh", "-c", "echo no space left; exit 7"]), tmp_path / "log")
    found._guard.wait(30)
    with pytest.raises(ServerError, match=r"^sh ended with exit status 7; its last lines:\nno space left"):
        found.check()
