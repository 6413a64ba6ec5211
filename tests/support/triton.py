"""Tests against a real Triton: where there is one, with its logs out of the way."""

import shutil
from pathlib import Path

import pytest

from servemark.paths import CHECKOUT
from servers.modes import embedded

START_S = 90.0
IDENTITY = CHECKOUT / "benchmarks" / "rig" / "model_repo" / "identity"
IDENTITY_LOCUSTFILE = CHECKOUT / "benchmarks" / "rig" / "identity_locustfile.py"

needs_triton = pytest.mark.skipif(embedded.missing() is not None, reason=f"{embedded.missing()}")
triton_only = [needs_triton, pytest.mark.usefixtures("own_logs")]
"""A module's `pytestmark`."""


def copy_identity(repository: Path, name: str = "identity", width: int = 64) -> str:
    """Put the benchmarks' model that answers what it is asked into a repository; returns its name."""
    shutil.copytree(IDENTITY, repository / name, ignore=shutil.ignore_patterns("__pycache__"))
    config = (IDENTITY / "config.pbtxt").read_text().replace('"identity"', f'"{name}"')
    (repository / name / "config.pbtxt").write_text(config.replace("[ 64 ]", f"[ {width} ]"))
    return name
