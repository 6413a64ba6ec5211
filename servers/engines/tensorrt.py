"""TensorRT: a serialised plan (`model.plan`) on one GPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from servemark.errors import ServerError
from servemark.frameworks.tensorrt import TENSORRT, Plan
from servemark.workload import Arrays
from servers.engines import flag

if TYPE_CHECKING:
    import torch

ARTIFACT = "model.plan"
PACKAGE = "tensorrt"
OPTIONS = ("intra_op_thread_count", "cuda_graph")


class TensorRT:
    """One plan with its execution context; `name` and `provider` are those of its edition of TensorRT."""

    def __init__(self, plan: Plan, device: str, outputs: Sequence[str], *, name: str, provider: str) -> None:
        import torch

        self.name, self.provider, self.device = name, provider, device
        self.plan = plan
        self.scalars = plan.scalars
        self._outputs = list(outputs)
        self._from_numpy = torch.from_numpy

    def run(self, inputs: Arrays) -> Arrays:
        answer = self.run_tensors({name: self._from_numpy(array) for name, array in inputs.items()})
        return {name: answer[name].numpy(force=True) for name in self._outputs}

    def run_tensors(self, inputs: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        return self.plan.run(inputs)


def check_device(device: str, title: str) -> None:
    """Raise ServerError for a CPU."""
    if device == "cpu":
        raise ServerError(f"{title} runs on NVIDIA GPUs only, cpu was asked for", fix="--device cuda:0")


def load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> TensorRT:
    """Load a plan; option `cuda_graph=true` replays CUDA graphs. Raises ServerError without a GPU, ArtifactError."""
    check_device(device, TENSORRT.title)
    graphs = flag(options, "cuda_graph")
    plan = Plan(TENSORRT, artifact, device, inputs, outputs, graphs=graphs)
    provider = "TensorRT with CUDA graphs" if graphs else "TensorRT"
    return TensorRT(plan, device, outputs, name="tensorrt", provider=provider)
