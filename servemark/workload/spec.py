"""What a workload is: everything the stages need to know about a model, importable without torch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from servemark.results.objectives import Slo
from servemark.workload.agreement import Agreement
from servemark.workload.labelled import LabelledSet
from servemark.workload.tensor import Sample, Tensor

if TYPE_CHECKING:
    from torch import nn

Sizes = TypeVar("Sizes")
"""A model's own widths and lengths."""
Made = TypeVar("Made")


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
    labelled: Callable[[Path], LabelledSet] | None = None
    """The same data with its labels, as `quality.metric` takes them; raises as `read`."""
    agreement: Agreement = field(default_factory=Agreement)
    trained: bool = False
    """Whether `build` brings trained weights; seeded random ones agree with fp32 or not, but are never accurate."""
    tiny: "Workload | None" = None
    """The same graph with small widths for fast tests; named <name>_tiny."""


@dataclass(frozen=True)
class Variant(Generic[Sizes]):
    """What sets a workload and its tiny variant apart; the figures are those of `Workload`."""

    sizes: Sizes
    parameters: int
    flops: int
    agreement: Agreement | None = None
    """None: that of the other one."""


def define(
    name: str,
    title: str,
    *,
    full: Variant[Sizes],
    tiny: Variant[Sizes] | None = None,
    task: str,
    suites: tuple[str, ...],
    inputs: Callable[[Sizes], tuple[Tensor, ...]],
    outputs: Callable[[Sizes], tuple[Tensor, ...]],
    max_batch: int,
    slo: Slo,
    quality: Quality,
    citation: str,
    locustfile: str,
    build: Callable[[str, Sizes], "nn.Module"],
    samples: Callable[[Sizes, np.random.Generator], Iterator[Sample]],
    dataset: str | None = None,
    read: Callable[[Path], Iterator[Sample]] | None = None,
    labelled: Callable[[Path], LabelledSet] | None = None,
    agreement: Agreement | None = None,
) -> Workload:
    """Describe a workload and its tiny variant, if it has one, at once; real data only fits the full one.

    `build` takes the variant's name, which is its seed. It has to be a function of the workload's own file, by which an
    export notices that the file was edited.
    """

    def of(name: str, variant: Variant[Sizes], **only_full: Any) -> Workload:
        return Workload(
            name=name,
            title=title,
            task=task,
            suites=suites,
            inputs=inputs(variant.sizes),
            outputs=outputs(variant.sizes),
            parameters=variant.parameters,
            flops=variant.flops,
            max_batch=max_batch,
            slo=slo,
            quality=quality,
            citation=citation,
            locustfile=locustfile,
            build=_bound(build, name, variant.sizes),
            samples=_bound(samples, variant.sizes),
            agreement=variant.agreement or agreement or Agreement(),
            **only_full,
        )

    small = of(f"{name}_tiny", tiny) if tiny else None
    return of(name, full, dataset=dataset, read=read, labelled=labelled, tiny=small)


def _bound(function: Callable[..., Made], *first: object) -> Callable[..., Made]:
    """Bind the first arguments; what is bound keeps its module and docstring."""
    return update_wrapper(partial(function, *first), function)
