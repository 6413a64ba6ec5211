"""NeuMF with the weights of `python -m recipes.ncf_ml100k`; `--workloads recipes/workloads` finds it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from recipe_weights import trained

from servemark.models.ncf_ml100k import WORKLOAD as UNTRAINED

if TYPE_CHECKING:
    from torch import nn


def build() -> "nn.Module":
    """The zoo's network, trained."""
    return trained(UNTRAINED)


WORKLOAD = replace(UNTRAINED, name=f"{UNTRAINED.name}_trained", build=build, trained=True, tiny=None)
