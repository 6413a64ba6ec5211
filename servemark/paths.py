"""Default folders: in the checkout, else where the command is run; the command line can override each."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
ROOT = CHECKOUT if (CHECKOUT / "pyproject.toml").is_file() else Path.cwd()
"""The checkout or, if servemark is installed without one, the present folder: results do not belong among packages."""
MODEL_REPOSITORY = ROOT / "model_repo"
DATA_ROOT = ROOT / "data"
RESULTS = ROOT / "results"
LOCUSTFILES = CHECKOUT / "loadgen"


def shown(path: Path) -> str:
    """The path as it is printed: relative to the working directory where it lies below it, else whole."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
