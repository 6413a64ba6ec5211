"""Faults of the places that a run writes to: full disks, and readers of its output that have gone."""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.faults.answers import ANY
from tests.faults.generator import Rig
from tests.faults.registry import BAD_INPUT, INVALID, Expected, Seen, fault


@contextlib.contextmanager
def disk(rig: Rig, size: str) -> Iterator[Path]:
    """A real file system of that size."""
    folder = rig.new_folder()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["/bin/umount", str(folder)], check=True)


def _fill(folder: Path, leave: int = 0) -> None:
    room = os.statvfs(folder)
    with contextlib.suppress(OSError):
        (folder / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - leave))


@fault(19, "disk", "the disk is full before the run", "a file system of 64 KiB as `--out`",
       Expected(codes=(BAD_INPUT,), result="none", says="No space left"))  # fmt: skip
def _disk(rig: Rig) -> Seen:
    with disk(rig, "64k") as out:
        return rig.answered(out=out / "out", received=None)


@fault(19, "disk-later", "the disk fills up during the run; the figures are printed", "a file system of 3 MiB",
       Expected(codes=(BAD_INPUT,), result="partial", figures=False, says="No space left"))  # fmt: skip
def _disk_later(rig: Rig) -> Seen:
    with disk(rig, "3m") as out:
        seen = rig.answered(out=out / "out", received=None, during=lambda _: _fill(out))
    if not re.search(r"latency +[0-9]", seen.output):
        seen.troubles.append("the figures are not printed")
    return seen


@fault(19, "disk-log", "the request log fills the disk; the log is lost, the result is not", "a file system of 3 MiB",
       Expected(codes=ANY, says="no requests.csv: No space left"))  # fmt: skip
def _disk_log(rig: Rig) -> Seen:
    with disk(rig, "3m") as out:
        return rig.answered(
            *("--request-log", "--concurrency", "16", "--duration", "6"),
            out=out / "out",
            during=lambda _: _fill(out, leave=64 << 10),
        )


for _name, _shell, _what in (
    ("stderr-full", "2>/dev/full", "stderr is on a full disk"),
    ("stdout-full", ">/dev/full", "stdout is on a full disk"),
    ("reader-gone", "2>&1 | head -1", "who reads stdout and stderr has gone"),
):

    @fault(20, _name, _what, f"`{_shell}`", Expected(codes=(0, INVALID, BAD_INPUT, 1), kinds=()))
    def _output(rig: Rig, shell: str = _shell) -> Seen:
        return rig.answered("--duration", "3", shell=shell)
