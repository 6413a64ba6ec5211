"""Triton in a container, where a Docker engine answers; the models are mounted read-only."""

import os
import shutil
import subprocess
from pathlib import Path

from servemark.errors import ServerError
from servers.launch.process import Command
from servers.launch.server import TUNABLES, ServerJob

NAME = "docker"
IMAGE = "nvcr.io/nvidia/tritonserver:26.09-py3"
"""Triton 2.73. NVIDIA's security bulletins ask for 26.07 or later. SERVEMARK_TRITON_IMAGE names another."""
ENGINE_TIMEOUT_S = 5


def missing() -> ServerError | None:
    """Say why this mode cannot be used here; None where it can."""
    docker = shutil.which("docker")
    if not docker:
        return ServerError("no docker on PATH", fix="install Docker, or use the embedded Triton")
    try:
        answer = subprocess.run(
            [docker, "version", "--format", "{{.Server.Version}}"],
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


def command(job: ServerJob) -> Command:
    """Plan the start: the host's network, so that the same loopback addresses hold, and its GPUs where it has any."""
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
