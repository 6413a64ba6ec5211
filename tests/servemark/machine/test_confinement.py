"""Abilities of a confined process; tests/exporters/importing/test_sandbox.py attacks from inside a model."""

import ctypes
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from servemark.machine import confinement

CHILD = """
import sys
from pathlib import Path
from servemark.machine import confinement
read, write = Path(sys.argv[1]), Path(sys.argv[2])
closed = confinement.close_files([*confinement.interpreter(), read], [write])
confinement.limit(1 << 30)
def tried(attempt):
    try:
        attempt()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "done"
import colorsys  # the standard library stays readable
print(closed, *map(tried, (
    (read / "file").read_text,
    lambda: (read / "new").write_text(""),
    lambda: (write / "new").write_text("words"),
    (write / "new").read_text,
    lambda: (read.parent / "secret").read_text(),
    lambda: Path("/dev/null").write_text(""),
    lambda: bytearray(2 << 30),
)))
"""


def test_files_and_memory_are_closed(tmp_path: Path) -> None:
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
    (tmp_path / "read" / "file").write_text("")
    (tmp_path / "secret").write_text("")
    command = [sys.executable, "-c", CHILD, str(tmp_path / "read"), str(tmp_path / "write")]
    closed, *found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    if closed == "False":
        pytest.skip("this kernel has no Landlock")
    assert found == ["done", "PermissionError", "done", "done", "PermissionError", "done", "MemoryError"]


def test_a_kernel_without_landlock_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "_CREATE_RULESET", 1 << 20)  # a system call that no kernel has
    assert not confinement.close_files([], [])


def test_what_python_imports_can_be_read() -> None:
    places = confinement.interpreter()
    assert any(Path(confinement.__file__).is_relative_to(place) for place in places)
    assert any(Path(pytest.__file__).is_relative_to(place) for place in places)


def test_a_network_namespace_whose_map_is_refused_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by AppArmor in Ubuntu 24.04; nothing is unshared here."""

    def refuse(*_: object) -> None:
        raise PermissionError

    answers = iter([-1, 0])
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(unshare=lambda _: next(answers)))
    monkeypatch.setattr(Path, "write_text", refuse)
    assert confinement.close_network()
