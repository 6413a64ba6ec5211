"""Ways to start a Triton: the one in the wheel `nvidia-pytriton`, one on PATH, one in Docker."""

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from servemark.errors import OptionError, ServerError
from servers.engines import engine_names
from servers.launch.process import Command
from servers.launch.server import TUNABLES, ServerJob

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
IMAGE = "nvcr.io/nvidia/tritonserver:26.09-py3"
"""Triton 2.73. NVIDIA's security bulletins ask for 26.07 or later. SERVEMARK_TRITON_IMAGE names another."""
ENGINE_TIMEOUT_S = 5


class Starter(NamedTuple):
    """A way to start a Triton."""

    missing: Callable[[], ServerError | None]
    """Says why it cannot be used here, with the remedy; None where it can."""
    command: Callable[[ServerJob], Command]
    """Plans the start. Raises ServerError, and OptionError for a model's name that it cannot take."""


def _embedded_missing() -> ServerError | None:
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


def _embedded_command(job: ServerJob) -> Command:
    """Plan a backend directory in the scratch directory, the wheel's libraries, this Python for the stubs.

    Raises ServerError where the wheel or a library is missing, OptionError for a name that its backend cannot take.
    """
    if reason := _embedded_missing():
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


def _native_missing() -> ServerError | None:
    if shutil.which("tritonserver"):
        return None
    return ServerError(
        "no tritonserver on PATH", fix="run inside nvcr.io/nvidia/tritonserver, or use the embedded Triton"
    )


def _docker_missing() -> ServerError | None:
    program = shutil.which("docker")
    if not program:
        return ServerError("no docker on PATH", fix="install Docker, or use the embedded Triton")
    try:
        answer = subprocess.run(
            [program, "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            text=True,
            timeout=ENGINE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ServerError(
            f"the Docker engine did not answer within {ENGINE_TIMEOUT_S} s", fix="systemctl restart docker"
        )
    if answer.returncode:
        return ServerError(f"no Docker engine answers: {answer.stderr.strip()}", fix="systemctl start docker")
    return None


def _docker_command(job: ServerJob) -> Command:
    """Plan the use of the host's network, so that the same loopback addresses hold, and its GPUs where it has any."""
    name, user = job.scratch.name, f"{os.getuid()}:{os.getgid()}"
    gpus = ["--gpus", "all"] if Path("/dev/nvidiactl").exists() else []
    container = ["--rm", "--init", "--name", name, "--network", "host", "--shm-size", "1g", *gpus]
    passed = ["--env", TUNABLES]  # none where this process has none
    locked = ["--user", user, "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    image = os.environ.get("SERVEMARK_TRITON_IMAGE", IMAGE)
    # Docker reads a mount as a line of CSV, in which a path may hold commas.
    mounts = [
        f"--mount=type=bind,{_field('source', model.resolve())},{_field('target', f'/models/{model.name}')},readonly"
        for model in sorted(job.repository.iterdir())
    ]
    return Command(
        argv=["docker", "run", *container, *passed, *locked, *mounts, image, "tritonserver", *job.arguments("/models")],
        # The container is the engine's child, not ours: it outlives the killed client unless it is removed by name.
        afterwards=["docker", "rm", "--force", name],
        contained=True,
    )


def _field(key: str, value: object) -> str:
    """Quote a field of a line of CSV."""
    return '"{}={}"'.format(key, str(value).replace('"', '""'))


embedded = Starter(_embedded_missing, _embedded_command)
"""Needs neither Docker nor root; models run in servemark's Python-based backends."""
native = Starter(_native_missing, lambda job: Command(argv=["tritonserver", *job.arguments()]))
"""Works as inside NVIDIA's container: its own C++ backends serve the same repository."""
docker = Starter(_docker_missing, _docker_command)
"""Needs a Docker engine that answers; the models are mounted read-only."""
MODES = {"embedded": embedded, "native": native, "docker": docker}
"""By name, the preferred first."""
