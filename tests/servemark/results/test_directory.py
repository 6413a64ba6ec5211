"""Result directories: whole or not at all, a full disk shows early, and what is no result is refused."""

import errno
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from servemark.errors import ExitCode, ResultError
from servemark.figures.registry import count_of
from servemark.results import directory as results
from servemark.results.schema.header import SCHEMA_VERSION
from servemark.workload import get
from tests.support.largest_file import largest_file
from tests.support.locust_run import run, server_of

RESULT: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "load", "metrics": {"p99": 1.5}}
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """A file system of 64 KiB; skips where mounting is not allowed."""
    folder.mkdir()
    mount = shutil.which("mount")
    arguments = [str(mount), "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(arguments, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S607 - wherever it is


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = results.write(tmp_path, RESULT, {"latency_us": "HISTFAAA"})
    assert path == tmp_path / "result.json"
    assert results.read(tmp_path) == results.read(path) == RESULT
    assert json.loads((tmp_path / "histograms.json").read_text()) == {"latency_us": "HISTFAAA"}
    results.write(tmp_path, RESULT | {"partial": False})
    assert results.read(tmp_path)["partial"] is False
    assert sorted(p.name for p in tmp_path.iterdir()) == ["histograms.json", "result.json"]


def test_the_name_of_a_result_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the synced files and the folder at that time: the file is synced before its name, the folder after it."""
    synced: list[tuple[bool, list[str]]] = []

    def note(descriptor: int) -> None:
        names = sorted(path.name for path in tmp_path.iterdir())
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), names))

    monkeypatch.setattr(os, "fsync", note)
    results.write_atomically(tmp_path / "result.json", "{}")
    assert synced == [(False, [f".result.json.{os.getpid()}"]), (True, ["result.json"])]


def test_a_file_system_that_syncs_no_folders_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refuse)
    results.write_atomically(tmp_path / "result.json", "{}")
    assert (tmp_path / "result.json").read_text() == "{}"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    results.write(tmp_path, RESULT)
    words = r"cannot be written to .*result\.json: File too large"
    with largest_file(100), pytest.raises(ResultError, match=words) as error:
        results.write(tmp_path, RESULT | {"more": "x" * 1000})
    assert error.value.exit_code == ExitCode.BAD_INPUT
    assert "--out DIR" in str(error.value)
    assert results.read(tmp_path) == RESULT
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_descriptor: int) -> None:
        raise KeyboardInterrupt

    results.write(tmp_path, RESULT)
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        results.write(tmp_path, RESULT | {"partial": True})
    assert results.read(tmp_path) == RESULT
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_histograms_come_before_the_result_that_refers_to_them(tmp_path: Path) -> None:
    with largest_file(5000), pytest.raises(ResultError):
        results.write(tmp_path, RESULT, {"latency_us": "H" * 10_000})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_figure_is_written_that_json_does_not_have(value: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        results.write(tmp_path, RESULT | {"value": value})
    assert list(tmp_path.iterdir()) == []


def test_directories_of_the_same_second_differ_and_none_is_below_another(tmp_path: Path) -> None:
    made = [results.new_directory(tmp_path / "a" / "b", "model", now=NOW) for _ in range(3)]
    names = ["20260102-030405-model", "20260102-030405-model-2", "20260102-030405-model-3"]
    assert [directory.name for directory in made] == names
    assert all(directory.is_dir() for directory in made)
    assert results.new_directory(tmp_path, "org/model", now=NOW) == tmp_path / "20260102-030405-org_model"


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="Not a directory"):
        results.new_directory(tmp_path / "file" / "out", "model")


def test_no_room_by_the_file_systems_own_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = list(os.statvfs(tmp_path))
    figures[4] = 1  # f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(figures))
    with pytest.raises(ResultError, match=r"cannot be written to /.*: No space left on device"):
        results.new_directory(tmp_path, "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory"),
        ("", "is not a result"),
        ('{"schema_version": 1', "is not a result"),
        ("[1, 2]", "is not a result"),
        ("{}", "has schema version None, this is version 5"),
        ('{"schema_version": 99}', "has schema version 99, this is version 5"),
        (b"\xff\xfe\x00", "is not a result"),
        pytest.param("[" * 200_000, "is not a result", id="deep"),
        *(
            (f'{{"x": [{number}]}}', "is not a result: JSON is malformed")
            for number in ("NaN", "Infinity", "-Infinity")
        ),
        ('{"x": [1e999]}', "is not a result: Number out of range"),
    ],
)
def test_what_is_no_result_is_refused(content: str | bytes | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    for path in (tmp_path, file):
        with pytest.raises(ResultError, match=words) as error:
            results.read(path)
        assert "result.json" in error.value.what


def test_locust_says_that_there_is_no_room_before_it_sends_anything(tmp_path: Path) -> None:
    with full_disk(tmp_path / "small") as small, server_of(get("ranking_tiny")) as server:
        done = run("ranking", "--model", "ranking_tiny", "--url", server.url, "--out", str(small))
        assert server.requests() == []
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disk_that_fills_up_during_the_run_does_not_cost_the_figures(tmp_path: Path) -> None:
    # More than what is written before the run, less than the result.
    with server_of(get("ranking_tiny")) as server, largest_file(9000):
        flags = ["--url", server.url, "--out", str(tmp_path), "--duration", "0.5", "--warmup", "0"]
        done = run("ranking", "--model", "ranking_tiny", *flags)
    assert done.returncode == 3, done.stderr
    assert "File too large" in done.stderr
    document = done.stdout[done.stdout.index("{\n") : done.stdout.index("\n}\n") + 3]
    assert count_of(json.loads(document), "requests.answered") > 10


def test_the_newest_result_of_the_usual_place_has_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    link = tmp_path / "latest"
    first = results.new_directory(tmp_path, "a", now=NOW)
    assert link.readlink() == Path(first.name)
    second = results.new_directory(tmp_path, "b", now=NOW.replace(hour=4))
    assert link.resolve() == second
    results.discard(second)
    assert link.resolve() == first
    results.discard(first)
    assert not link.is_symlink()
    (tmp_path / "latest").mkdir()  # somebody's own
    results.new_directory(tmp_path, "c", now=NOW)
    assert not link.is_symlink()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_no_other_place_has_one(tmp_path: Path) -> None:
    results.new_directory(tmp_path / "out", "a", now=NOW)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["20260102-030405-a"]
    with pytest.raises(ResultError, match="out/latest cannot be read") as caught:
        results.read(tmp_path / "out" / "latest")
    assert caught.value.fix == f"only results/ has a `latest`: name {tmp_path}/out/20260102-030405-a, the newest here"
    with pytest.raises(ResultError) as caught:
        results.read(tmp_path / "latest")
    assert caught.value.fix == "name a result directory"
