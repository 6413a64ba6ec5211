"""Folders: each lies below SERVEMARK_HOME, which is the working directory where it is not set; flags override each."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LOCUSTFILES = CHECKOUT / "loadgen"
HOME_VARIABLE = "SERVEMARK_HOME"
HOME = Path(os.environ[HOME_VARIABLE]).expanduser().absolute() if os.environ.get(HOME_VARIABLE) else Path()
MODEL_REPOSITORY = HOME / "model_repo"
DATA_ROOT = HOME / "data"
RESULTS = HOME / "results"
BASELINES = HOME / "baselines"
IMPORTS = HOME / "servemark_models"
MONITORING = RESULTS / "prometheus"
"""Default folder of `dashboards up`."""


def shown(path: Path) -> str:
    """The path as it is printed: relative to the working directory where it lies below it, else whole."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def resumed(text: str) -> Path | None:
    """The folder that --resume names, None where it names none; not a link like `latest`, which moves on."""
    if not text:
        return None
    path = found(text)
    return path.parent / path.readlink() if os.path.islink(path) else path  # noqa: PTH114 - as below


def found(text: str) -> Path:
    """The path as it is given or, where nothing is there, below SERVEMARK_HOME: `results/latest` from anywhere."""
    path = Path(text)
    at_home = HOME / path
    there, elsewhere = os.path.exists(path), os.path.exists(at_home)  # noqa: PTH110 - Path raises where a name is too long
    return at_home if elsewhere and not there else path
