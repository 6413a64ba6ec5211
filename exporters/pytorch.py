"""PyTorch: a torch.export program, which needs none of the workload's Python code to run."""

import io
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporters._job import Job
from exporters._registry import Run
from servemark.artifacts import Arrays
from servemark.models import Workload

ARTIFACT = "model.pt2"
PACKAGES = ()
EXTRA = "torch"
PRECISIONS = ("fp32",)
DEVICE = "cpu"


def write(job: Job) -> Mapping[str, object]:
    """Write model.pt2."""
    import torch

    workload, example = job.workload, job.example
    batch: Any = torch.export.Dim("batch")
    program = torch.export.export(
        job.model,
        tuple(torch.from_numpy(example[tensor.name]) for tensor in workload.inputs),
        dynamic_shapes=tuple(
            {0: batch} | dict.fromkeys(tensor.variable_axes, torch.export.Dim.DYNAMIC) for tensor in workload.inputs
        ),
    )
    buffer = io.BytesIO()
    torch.export.save(program, buffer)  # straight to a file, torch's writer aborts the process on a full disk
    job.path.write_bytes(buffer.getbuffer())
    return {}


def load(path: Path, workload: Workload) -> Run:
    """Load the program on the CPU."""
    import torch

    # says of each loop in a model that its counter is not in the graph
    logging.getLogger("torch._export.serde.serialize").setLevel(logging.ERROR)
    module = torch.export.load(path).module()

    def run(inputs: Arrays) -> Arrays:
        with torch.inference_mode():
            answer: Any = module(*(torch.from_numpy(inputs[tensor.name]) for tensor in workload.inputs))
        tensors = answer if isinstance(answer, tuple) else (answer,)
        return {tensor.name: value.numpy() for tensor, value in zip(workload.outputs, tensors, strict=True)}

    return run
