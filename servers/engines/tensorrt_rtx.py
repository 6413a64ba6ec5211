"""TensorRT-RTX: a serialised plan (`model.plan`) on one GPU, whose kernels are compiled there at first use."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from servemark.frameworks.tensorrt_rtx import RTX, RtxPlan
from servers.engines import flag
from servers.engines.tensorrt import TensorRT, check_device

ARTIFACT = "model.plan"
PACKAGE = "tensorrt_rtx_bindings"
OPTIONS = ("intra_op_thread_count", "cuda_graph", "runtime_cache")


def load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> TensorRT:
    """Load a plan; option `cuda_graph=true` replays CUDA graphs, `runtime_cache=false` compiles all kernels anew.

    Raises ServerError without a GPU that TensorRT-RTX runs on, ArtifactError.
    """
    check_device(device, RTX.title)
    graphs, cache = flag(options, "cuda_graph"), flag({"runtime_cache": "true", **options}, "runtime_cache")
    plan = RtxPlan(artifact, device, inputs, outputs, graphs=graphs, cache=cache)
    details = [*(["CUDA graphs"] if graphs else []), *([] if cache else ["no runtime cache"])]
    provider = f"{RTX.title} with {' and '.join(details)}" if details else RTX.title
    return TensorRT(plan, device, outputs, name="tensorrt_rtx", provider=provider)
