"""A foreign file is read and run in a process apart: it writes in one folder, has no network, and ends.

The parent trusts nothing that comes back: it is JSON, whose errors become errors of ours by name.
"""

import contextlib
import errno
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from exporters.importing.model_file import unusable
from servemark import errors, files, interrupts
from servemark.machine import confinement
from servemark.machine.limits import memory

LIMIT_S = 1800.0
"""Time limit for reading a file and answering its samples, because a graph may be an endless loop."""
MEMORY_SHARE = 0.9
"""Limit of its memory, as a share of the free memory."""
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
"""Errors of a disk without room."""
MAX_ANSWER_BYTES = 64 << 20
MAX_WORDS = 300
JOB, ANSWER, WORDS = "job", "answer.json", "words"
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.buffer.readline());"
    "from exporters.importing.sandbox import answer; answer()"
)
Work = Callable[[Callable[[], None]], dict[str, Any]]
"""Does the work; calls what it is given before it runs what it has read."""


def run_sandboxed(path: Path, read: Sequence[Path], then_read: Sequence[Path], scratch: Path, work: Work) -> Any:
    """Do some work on a file in a process of its own, and give its answer.

    It reads what is in `read` at first, and what is in `then_read` once it is sealed; it writes in `scratch`. Raises
    what the work raises of our errors, and ArtifactError where the process ends without an answer.
    """
    own = scratch / ".apart"
    own.mkdir()
    allowed = int(memory().available_bytes * MEMORY_SHARE)
    plan = {
        "read": _texts(read),
        "then": _texts(then_read),
        "write": [str(scratch)],
        "memory": allowed,
        "parent": os.getpid(),
    }
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in (sys.path, {**plan, "own": str(own)}))
    (own / JOB).write_bytes(lines + pickle.dumps(work))
    environment = {**os.environ, "TMPDIR": str(own), "HOME": str(own), "PYTHONDONTWRITEBYTECODE": "1"}
    with (own / JOB).open("rb") as job, (own / WORDS).open("w+b") as words:
        process = subprocess.Popen(  # -P: nothing is imported from where the user stands
            [sys.executable, "-P", "-c", BOOT],
            stdin=job,
            stdout=words,
            stderr=words,
            env=environment,
            start_new_session=True,
        )
        try:
            code = interrupts.wait(process, LIMIT_S)
        except subprocess.TimeoutExpired:
            raise unusable(
                path, f"it was not read and run within {LIMIT_S / 60:g} minutes", fix="a loop in it may have no end"
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):  # also what it has started and left behind
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return _heard(path, own / ANSWER, words.fileno(), code, allowed)


def _texts(paths: Iterable[Path]) -> list[str]:
    return [str(path.absolute()) for path in paths]


def _heard(path: Path, file: Path, words_fd: int, code: int, allowed: int) -> Any:
    """The answer of the process. Raises what it says, and ArtifactError where it says nothing."""
    try:
        answered = files.content(file, MAX_ANSWER_BYTES)
    except OSError:
        ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        start = max(0, os.fstat(words_fd).st_size - MAX_WORDS)
        said = os.pread(words_fd, MAX_WORDS, start).decode(errors="replace")
        words = f": {' '.join(repr(said)[1:-1].split())}" if said else ""
        raise unusable(
            path,
            f"the process that read and ran it ended with {ended}{words}",
            fix=f"more memory than {allowed >> 20:,} MiB, or another export of the model",
        ) from None
    with errors.parsing(path, errors.ArtifactError):
        heard: dict[str, Any] = json.loads(answered)
    if "error" in heard:
        kind = getattr(errors, str(heard["error"]), None)
        if not (isinstance(kind, type) and issubclass(kind, errors.ServemarkError)):
            raise RuntimeError(f"in the process that imported {path}:\n{heard['what']}")
        raise kind(heard["what"], fix=heard["fix"])
    return heard


def answer() -> None:
    """Do the work that stands in stdin, confined; the main function of the process apart."""
    plan = json.loads(sys.stdin.buffer.readline())
    libraries, write = confinement.interpreter(), [Path(each) for each in plan["write"]]
    held = {
        "the network": confinement.close_network(),
        "files": confinement.close_files([*libraries, *map(Path, plan["read"])], write),
    }
    confinement.limit(plan["memory"])
    interrupts.end_with_parent(signal.SIGKILL)
    if os.getppid() != plan["parent"]:
        os._exit(1)

    def seal() -> None:
        confinement.close_files([*libraries, *map(Path, plan["then"])], write)

    file = Path(plan["own"], ANSWER)
    said: dict[str, Any]
    try:
        said = pickle.load(sys.stdin.buffer)(seal)  # noqa: S301 - our parent's
        said["open"] = [name for name, closed in held.items() if not closed]
    except errors.ServemarkError as error:
        said = {"error": type(error).__name__, "what": error.what, "fix": error.fix}
    except MemoryError:
        said = {
            "error": "ArtifactError",
            "what": f"the model needs more memory than the {plan['memory'] >> 20:,} MiB that are free",
            "fix": "more memory, or a smaller model",
        }
    except OSError as error:
        said = {
            "error": "ArtifactError",
            "what": f"the model cannot be copied: {error}",
            "fix": "make room, or copy it" if error.errno in NO_ROOM else "copy it to where it can be read",
        }
    except Exception:  # whatever the frameworks raise: the parent raises it with this traceback
        import traceback

        said = {"error": "", "what": traceback.format_exc(), "fix": None}
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(said))
    draft.rename(file)
    # the frameworks' threads and destructors have nothing left to do
    os._exit(0)
