"""A `tritonserver` on PATH, as inside NVIDIA's container: its own C++ backends serve the same repository."""

import shutil

from servemark.errors import ServerError
from servers.launch.process import Command
from servers.launch.server import ServerJob

NAME = "native"


def missing() -> ServerError | None:
    """Say why this mode cannot be used here; None where it can."""
    if shutil.which("tritonserver"):
        return None
    return ServerError(
        "no tritonserver on PATH", fix="run inside nvcr.io/nvidia/tritonserver, or use the embedded Triton"
    )


def command(job: ServerJob) -> Command:
    """Plan the start."""
    return Command(argv=["tritonserver", *job.arguments()])
