"""One export: what an exporter may ask for, each made once and only when it is asked for."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from exporters.pipeline import golden
from exporters.pipeline.steps import step
from exporters.pipeline.weights import Weights
from servemark.errors import ArtifactError
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Workload

if TYPE_CHECKING:
    from torch import nn

Run = Callable[[Arrays], Arrays]
"""Runs an artifact on one batch."""
EXAMPLE_ROWS = 2  # PyTorch bakes a batch of 1 into the program
CALIBRATION_BATCHES, HEAVY_CALIBRATION_BATCHES = 32, 8
"""Number of batches of one sample from which post-training quantisation takes its ranges."""


class Origin(NamedTuple):
    """An fp32 artifact of the repository, mostly the ONNX file, and its golden samples."""

    file: Path
    golden: Golden


@dataclass
class Job:
    """One artifact to write to `path`."""

    workload: Workload
    precision: str
    path: Path
    origin_entry: Callable[[], Origin] | None
    """Source of the artifact, exported first if it is not current. None: it is made from the module."""
    known: Golden | None
    """Golden samples that are there already, of the same workload and versions."""
    weights: Weights | None = None
    """The user's own; None: those that the workload builds with."""

    @cached_property
    def model(self) -> "nn.Module":
        """The PyTorch module. Raises ArtifactError where it, or the user's weights, are not what the workload says."""
        with step(f"{self.workload.name}: building the network"):
            model = self.workload.build()
        parameters = sum(parameter.numel() for parameter in model.parameters())
        if self.workload.parameters not in {None, parameters}:
            raise ArtifactError(
                f"{self.workload.name} has {parameters:,} parameters, its workload says {self.workload.parameters:,}",
                fix=f"mend the workload file of {self.workload.name}",
            )
        if self.weights:
            self.weights.load_into(model, self.workload.name)
        return model

    @cached_property
    def _origin(self) -> Origin:
        assert self.origin_entry is not None, f"{self.precision} is not in the exporter's FROM_ONNX"
        return self.origin_entry()

    @property
    def origin(self) -> Path:
        """The artifact that it is made from: the repository's fp32 ONNX file, or one of the exporter's READS."""
        return self._origin.file

    @cached_property
    def golden(self) -> Golden:
        """Chosen samples and what eager PyTorch answers; the ONNX entry's where that is the source."""
        if self.origin_entry is not None:
            return self._origin.golden
        if self.known:
            return self.known
        model = self.model
        with step(f"{self.workload.name}: answering golden samples in eager PyTorch"):
            return golden.choose(model, self.workload)

    @cached_property
    def example(self) -> Arrays:
        """A batch of two to trace with; sizes that vary are one larger than golden, so a baked-in one shows."""
        inputs = self.golden.inputs
        return {
            tensor.name: np.pad(
                inputs[tensor.name][:EXAMPLE_ROWS],
                [(0, int(axis in tensor.variable_axes)) for axis in range(len(tensor.shape) + 1)],
            )
            for tensor in self.workload.inputs
        }

    def calibration(self) -> Iterator[Arrays]:
        """Batches of one from the workload's own generator, other samples than the golden ones."""
        rng = np.random.default_rng(crc32(f"calibration {self.workload.name}".encode()))
        count = HEAVY_CALIBRATION_BATCHES if (self.workload.flops or 0) > golden.HEAVY_FLOPS else CALIBRATION_BATCHES
        for sample in itertools.islice(self.workload.samples(rng), count):
            yield self.workload.request([sample])
