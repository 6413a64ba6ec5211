"""A small process between servemark and a server, so that the server never outlives servemark.

Run as a script with the standard library only: `python -I -S guard.py JSON`, in a session of its own. It starts the
command, and when it is told to stop (SIGTERM), when the command ends, or when servemark is gone for whatever reason
(SIGKILL too), it ends the whole process group, waits until it is gone, and removes what the group left behind.
A guard rather than `preexec_fn` and PR_SET_PDEATHSIG in servemark itself, since that signal follows the *thread* that
forked, and since nobody would clear the shared memory of a killed server.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PARENT_POLL_S = 0.2
AFTERWARDS_S = 30.0
"""Time limit of what is run afterwards."""
PR_SET_PDEATHSIG = 1  # prctl(2)
PR_SET_CHILD_SUBREAPER = 36
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
WATCHED = STOP_SIGNALS | {signal.SIGCHLD}


def guard(parent: int, command: list[str], grace_s: float, remove: list[str], afterwards: list[str], claim: str) -> int:
    """Run the command until it ends or must end; return its exit status."""
    if claim:
        lock(Path(claim))
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans of a crashed server become our children, so that we can wait for them
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)

    def before_exec() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # should the guard itself be killed

    try:
        child = subprocess.Popen(command, process_group=0, preexec_fn=before_exec)  # noqa: PLW1509  one thread only
        while os.getppid() == parent and child.poll() is None:
            event = signal.sigtimedwait(WATCHED, PARENT_POLL_S)
            if event and event.si_signo in STOP_SIGNALS:
                break
        return stop(child, grace_s)
    finally:
        for path in (path for pattern in remove for path in Path(pattern).parent.glob(Path(pattern).name)):
            _delete(path)
        if afterwards:
            subprocess.run(afterwards, stdin=subprocess.DEVNULL, timeout=AFTERWARDS_S, check=False)


def lock(path: Path) -> int:
    """Make a file whose lock lasts as long as this process: what belongs to it is not abandoned. Its descriptor."""
    hidden = path.with_name(f".{path.name}")
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    hidden.rename(path)  # nobody sees it under its name before it is locked
    return descriptor


def stop(child: "subprocess.Popen[bytes]", grace_s: float) -> int:
    """Ask the command to end, then kill its process group and wait until all that it started is gone.

    A process in a group of its own becomes the guard's child as soon as its parent has ended, and is killed then.
    """
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(grace_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    status = child.wait()
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                for orphan in children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(orphan, signal.SIGKILL)
                time.sleep(0.01)
        except ChildProcessError:
            break
    return status


def children() -> list[int]:
    """List the processes whose parent is this one (proc(5))."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                stat = (folder / "stat").read_text(errors="replace")
                if stat.rpartition(")")[2].split()[1] == str(os.getpid()):
                    found.append(int(folder.name))
    return found


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    status = guard(**json.loads(sys.argv[1]))
    sys.exit(status if status >= 0 else 128 - status)
