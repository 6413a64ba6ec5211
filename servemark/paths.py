"""Where things are kept in a checkout; every one of them can be overridden on the command line."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
MODEL_REPOSITORY = CHECKOUT / "model_repo"
DATA_ROOT = CHECKOUT / "data"
RESULTS = CHECKOUT / "results"
LOCUSTFILES = CHECKOUT / "loadgen"
