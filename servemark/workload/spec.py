"""What a workload is: everything the stages need to know about a model, importable without torch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from servemark.results.objectives import Slo
from servemark.workload.agreement import Agreement
from servemark.workload.tensor import Sample, Tensor

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Quality:
    """The task metric of a workload and the suite's target, where one is published."""

    metric: str
    target: float | None
    protocol: str


@dataclass(frozen=True)
class Workload:
    """One model of the zoo with its interface, its requests and its objective.

    `parameters` is the exact count of learnable parameters (asserted by the export); `flops` counts one sample's
    forward pass, a multiply-add as 2 (docs/explanation/metrics.md, "FLOPs").
    """

    name: str
    title: str
    task: str
    suites: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    parameters: int
    flops: int
    max_batch: int
    slo: Slo
    quality: Quality
    citation: str
    locustfile: str
    """The task's locustfile: loadgen/<locustfile>.py; several workloads of one task share it."""
    build: Callable[[], "nn.Module"]
    """The seeded PyTorch module in eval mode; imports torch. Its forward takes the inputs in order, batched."""
    samples: Callable[[np.random.Generator], Iterator[Sample]]
    """An endless stream of realistic synthetic requests; equal for equal generators."""
    dataset: str | None = None
    """Key of the data set that `--input-data dataset` reads from DATA_ROOT/<key>."""
    read: Callable[[Path], Iterator[Sample]] | None = None
    """Requests from real data in its official layout at a path; finite; raises InputDataError with file and line."""
    agreement: Agreement = field(default_factory=Agreement)
    tiny: "Workload | None" = None
    """The same graph with small widths for fast tests; named <name>_tiny."""
