"""Where things are kept: in the checkout, else where the command is run; the command line can override each."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
ROOT = CHECKOUT if (CHECKOUT / "pyproject.toml").is_file() else Path.cwd()
"""Installed without a checkout there is none: what a run makes does not belong beside installed packages."""
MODEL_REPOSITORY = ROOT / "model_repo"
DATA_ROOT = ROOT / "data"
RESULTS = ROOT / "results"
LOCUSTFILES = CHECKOUT / "loadgen"


def shown(path: Path) -> str:
    """The path as it is printed: relative to the working directory where it lies below it, else whole."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
