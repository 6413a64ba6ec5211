"""The places of the user's own workloads and models: `--workload-file` and `--imports-dir`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servemark.paths import IMPORTS
from servemark.workload.imported import MODELS
from servemark.workload.registry import WORKLOADS


def places(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables that name them to every process; a child may run in another folder."""
    files = [str(Path(place).absolute()) for place in given["workload_file"] or ()]
    found = {MODELS: str(Path(given["imports_dir"] or os.environ.get(MODELS) or IMPORTS).absolute())}
    if files:
        found[WORKLOADS] = os.pathsep.join([*files, *filter(None, [os.environ.get(WORKLOADS)])])
    return found


def own_files() -> dict[str, Any]:
    """Return them as options of a request, which a rerun needs."""
    folder = os.environ.get(MODELS, "")
    workloads = [place for place in os.environ.get(WORKLOADS, "").split(os.pathsep) if place]
    return {"workload_file": workloads, "imports_dir": folder if folder and Path(folder).is_dir() else ""}
