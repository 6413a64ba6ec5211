"""The Triton in the wheel `nvidia-pytriton`: no Docker, no root; models run in servemark's Python-based backends."""

import contextlib
import fcntl
import importlib.util
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from servemark.errors import OptionError, ServerError
from servers.engines import engine_names
from servers.launch.process import Command
from servers.launch.server import ServerJob

NAME = "embedded"
BACKEND = "from servers.triton_backend.adapter import Adapter as TritonPythonModel\n"
"""The file of each engine's Python-based backend, by whose folder's name Triton finds it."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where the Python backend makes its regions (shm_open)
STUB = "triton_python_backend_stub"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
STUB_TIMEOUT_S = 600
"""Triton gives a stub 30 s to load a model, too few for a large one on a busy machine."""
CANNOT_EXECUTE = 127

_PREFIX = re.compile(r"servemark_[0-9]+_[0-9a-f]+_")
"""Start of the names of one server's regions: servemark's process id, and a random word of the server's."""
_CLAIM = "claim"


def missing() -> ServerError | None:
    """Say why this mode cannot be used here; None where it can."""
    try:
        wheel = _wheel()
    except ServerError as error:
        return error
    stub = wheel / "python_backend_stubs" / PYTHON / STUB
    if not stub.is_file():
        known = sorted(path.name for path in stub.parent.parent.iterdir())
        return ServerError(
            f"the wheel nvidia-pytriton has no Python backend for Python {PYTHON}", fix=f"use one of {known}"
        )
    # Without arguments the stub complains and ends; the dynamic linker complains first if a library is missing.
    trial = subprocess.run([stub], env=_environment(wheel), capture_output=True, text=True, timeout=20, check=False)
    if trial.returncode == CANNOT_EXECUTE:
        return ServerError(
            f"Triton's Python backend cannot start: {trial.stderr.strip()}", fix=_library_remedy(trial.stderr)
        )
    return None


def command(job: ServerJob) -> Command:
    """Plan the start: a backend directory in the scratch directory, the wheel's libraries, this Python for the stubs.

    Raises ServerError where the wheel or a library is missing, OptionError for a name that its backend cannot take.
    """
    if reason := missing():
        raise reason
    for model in job.models:
        _require_word(model)
    wheel = _wheel()
    backends = _backend_directory(wheel, job.scratch / "backends")
    _sweep()
    # Containers share /dev/shm but not their process numbers, so these numbers are not unique names.
    prefix = f"servemark_{os.getpid()}_{secrets.token_hex(4)}_"
    settings = {"shm-region-prefix-name": prefix, "stub-timeout-seconds": STUB_TIMEOUT_S}
    return Command(
        argv=[
            str(wheel / "bin" / "tritonserver"),
            *job.arguments(),
            f"--backend-directory={backends}",
            # Configurations are complete, and completing them would start every model's stub twice.
            "--disable-auto-complete-config",
            *(f"--backend-config=python,{key}={value}" for key, value in settings.items()),
        ],
        environment=_environment(wheel),
        remove=[str(SHARED_MEMORY / f"{prefix}*"), str(backends)],
        claim=str(SHARED_MEMORY / f"{prefix}{_CLAIM}"),
    )


def _require_word(model: str) -> None:
    """Check that a shell reads a model's name as it is: the Python backend starts each model by a line of bash.

    Bash takes every letter beyond ASCII as it is. Raises OptionError.
    """
    ascii_only = "".join(letter if letter.isascii() else "x" for letter in model)
    if shlex.quote(ascii_only) != ascii_only:
        raise OptionError(
            f"the embedded Triton cannot serve {model!r}: its Python backend starts models by a shell, "
            "which reads blanks, quotes and signs like & otherwise",
            fix="give the folder and its config.pbtxt a name without them, or --mode docker",
        )


def _wheel() -> Path:
    # find_spec rather than an import: the package pulls in its own server machinery, of which nothing is needed
    spec = importlib.util.find_spec("pytriton")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        tritonserver = Path(folder, "tritonserver")
        if (tritonserver / "bin" / "tritonserver").is_file():
            return tritonserver
    raise ServerError("the wheel nvidia-pytriton is not installed", fix="pip install -e '.[triton]'")


def _environment(wheel: Path) -> dict[str, str]:
    environment = dict(os.environ)
    libraries = [
        str(wheel.parent.parent / "nvidia_pytriton.libs"),
        sysconfig.get_config_var("LIBDIR") or "",  # libpythonX.Y.so.1.0 of a Python outside the system's directories
        environment.get("LD_LIBRARY_PATH", ""),
    ]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    # The stub ignores PYTHONPATH; it finds its packages through the `python` that is first on PATH.
    environment["PATH"] = os.pathsep.join(filter(None, [str(Path(sys.prefix, "bin")), environment.get("PATH")]))
    return environment


def _backend_directory(wheel: Path, folder: Path) -> Path:
    """Make Triton's backend directory. The Python backend is copied: Triton refuses links that lead out of it."""
    python = folder / "python"
    python.mkdir(parents=True)
    for file in (*(wheel / "backends" / "python").glob("*.*"), wheel / "python_backend_stubs" / PYTHON / STUB):
        shutil.copy2(file, python)
    for engine in engine_names():
        (folder / engine).mkdir()
        (folder / engine / "model.py").write_text(BACKEND)
    return folder


def _library_remedy(linker_message: str) -> str:
    if "libpython" in linker_message:
        return f"apt-get install libpython{PYTHON}"
    if "GLIBC" in linker_message:
        return "the wheel needs glibc 2.35 (Ubuntu 22.04, Debian 12) or later; use --mode docker"
    return "install the library named above"


def _sweep() -> None:
    """Remove regions of servemarks that are gone, whose guard was killed as well: this user's, and no live server's."""
    found: dict[str, list[Path]] = {}
    for region in SHARED_MEMORY.glob("servemark_*"):
        if begins := _PREFIX.match(region.name):
            found.setdefault(begins[0], []).append(region)
    for prefix, regions in found.items():
        with contextlib.suppress(OSError), _unclaimed(SHARED_MEMORY / f"{prefix}{_CLAIM}"):
            for region in regions:
                if region.lstat().st_uid == os.geteuid():
                    region.unlink()


@contextlib.contextmanager
def _unclaimed(claim: Path) -> Iterator[None]:
    """Hold the claim of a server that is gone. Raises OSError where a guard holds it, or where it is another user's."""
    try:
        descriptor = os.open(claim, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield  # a live server's is there before its regions
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
