"""Weights that a recipe has trained, in a workload of the zoo."""

from pathlib import Path
from typing import TYPE_CHECKING

from servemark.errors import InputDataError
from servemark.workload import Workload

if TYPE_CHECKING:
    from torch import nn

FOLDER = Path(__file__).parents[1] / "weights"


def trained(workload: Workload) -> "nn.Module":
    """The workload's network with the weights of its recipe. Raises InputDataError where it has not run."""
    from safetensors.torch import load_file

    path = FOLDER / f"{workload.name}.safetensors"
    if not path.is_file():
        raise InputDataError(f"{path} is not there", fix=f"python -m recipes.{workload.name}")
    model = workload.build()
    model.load_state_dict(load_file(path))
    return model
