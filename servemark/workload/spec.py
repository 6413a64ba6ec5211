"""What a workload is: everything the stages need to know about a model, importable without torch."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from servemark.errors import OptionError
from servemark.quantities import text_of
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
class Slo:
    """A latency objective: `percentile` (50 < p < 100) of the latency shall not exceed `limit_ms`."""

    percentile: float
    limit_ms: float

    _SYNTAX = re.compile(r"p(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the command line's `p99:50`. Raises OptionError."""
        match = cls._SYNTAX.fullmatch(text.strip())
        if not match:
            raise OptionError(f"--slo {text!r} is not pXX:MILLISECONDS", fix="write it like --slo p99:50")
        percentile, limit_ms = float(match[1]), float(match[2])
        if not 0 < percentile < 100 or limit_ms <= 0:
            raise OptionError(
                f"--slo {text!r}: the percentile must lie between 0 and 100 and the limit above 0 ms",
                fix="write it like --slo p99:50",
            )
        return cls(percentile, limit_ms)

    def __str__(self) -> str:
        return f"p{text_of(self.percentile)}:{text_of(self.limit_ms)}"


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
