"""The Triton in the wheel `nvidia-pytriton`: no Docker, no root; models run in servemark's Python-based backends."""

import contextlib
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from servemark.errors import ServerError
from servers.launch.process import Command
from servers.launch.server import ServerJob

NAME = "embedded"
BACKENDS = Path(__file__).parents[1] / "backends"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where the Python backend makes its regions (shm_open)
STUB = "triton_python_backend_stub"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
STUB_TIMEOUT_S = 600
"""Triton gives a stub 30 s to load a model, too few for a large one on a busy machine."""
CANNOT_EXECUTE = 127

_serial = itertools.count()


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

    Raises ServerError where the wheel or a library is missing.
    """
    if reason := missing():
        raise reason
    wheel = _wheel()
    backends = _backend_directory(wheel, job.scratch / "backends")
    _sweep()
    prefix = f"servemark_{os.getpid()}_{next(_serial)}_"
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
    for backend in BACKENDS.iterdir():
        if (backend / "model.py").is_file():
            (folder / backend.name).symlink_to(backend)
    return folder


def _library_remedy(linker_message: str) -> str:
    if "libpython" in linker_message:
        return f"apt-get install libpython{PYTHON}"
    if "GLIBC" in linker_message:
        return "the wheel needs glibc 2.35 (Ubuntu 22.04, Debian 12) or later; use --mode docker"
    return "install the library named above"


def _sweep() -> None:
    """Remove regions of servemarks that are gone, whose guard was killed as well."""
    for region in SHARED_MEMORY.glob("servemark_*_*"):
        pid = region.name.split("_")[1]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            # Another user's stays: a sticky directory keeps it.
            with contextlib.suppress(OSError):
                region.unlink()
