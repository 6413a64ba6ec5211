"""What a workload is: everything the stages need to know about a model, importable without torch."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from servemark.errors import OptionError
from servemark.workload.agreement import Agreement

if TYPE_CHECKING:
    from torch import nn

Sample = Mapping[str, npt.NDArray[np.generic]]
"""One request's inputs, without the batch dimension: tensor name -> array of the tensor's shape."""

NUMPY_DTYPES: Mapping[str, npt.DTypeLike] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "INT8": np.int8,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
"""KServe v2 datatypes (Open Inference Protocol, "Tensor Data Types") that the zoo uses."""


@dataclass(frozen=True)
class Tensor:
    """A named input or output. `shape` leaves out the batch dimension, which is always dimension 0 and dynamic.

    A size of -1 varies from request to request (the frames of an utterance); all samples of one batch share it.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The numpy dtype of `datatype`."""
        return np.dtype(NUMPY_DTYPES[self.datatype])

    @property
    def variable_axes(self) -> tuple[int, ...]:
        """The axes of a batch, itself axis 0, that have no fixed size."""
        return tuple(axis for axis, size in enumerate(self.shape, 1) if size == -1)

    def fits(self, shape: Sequence[int]) -> bool:
        """Tell whether a sample of this shape, without the batch dimension, is one of this tensor."""
        return len(shape) == len(self.shape) and all(
            size in {-1, got} for size, got in zip(self.shape, shape, strict=True)
        )


def stack(samples: Sequence[Sample], tensors: Sequence[Tensor]) -> dict[str, npt.NDArray[np.generic]]:
    """Make one batch of samples; where a size varies, shorter ones are padded with zeros to the longest of them."""
    batch = {}
    for tensor in tensors:
        arrays = [sample[tensor.name] for sample in samples]
        if tensor.variable_axes:
            shape = np.max([array.shape for array in arrays], axis=0)
            arrays = [
                np.pad(array, [(0, most - size) for most, size in zip(shape, array.shape, strict=True)])
                for array in arrays
            ]
        batch[tensor.name] = np.stack(arrays)
    return batch


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
        return f"p{self.percentile:g}:{self.limit_ms:g}"


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
