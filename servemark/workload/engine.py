"""Interface of what runs a model, in a server or in the load generator's own process."""

from collections.abc import Collection
from typing import Protocol

from servemark.workload.tensor import Arrays


class Engine(Protocol):
    """A model loaded on one device. Calls of `run` must not overlap."""

    @property
    def name(self) -> str:
        """Triton's backend name, such as `onnxruntime`."""

    @property
    def device(self) -> str:
        """Return the device: `cpu` or `cuda:N`."""

    @property
    def provider(self) -> str:
        """Return the provider, such as `CUDAExecutionProvider`; read back from the engine, not from the request."""

    @property
    def scalars(self) -> Collection[str]:
        """Return the inputs without a dimension; no input of a model with batches is one."""

    def run(self, inputs: Arrays) -> Arrays:
        """Answer one batch: tensor name -> array with the batch as dimension 0, both ways."""
