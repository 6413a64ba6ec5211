"""PyTorch: a torch.export program, which needs none of the workload's Python code to run.

The reduced precisions are the module in that type, which takes float32 and answers float32. Batch normalisation keeps
its statistics in float32, as PyTorch's kernels expect and as its own autocast does.
"""

import io
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.onnx_passes.torch_export import hush
from exporters.pipeline.job import Job, Run
from servemark.errors import ArtifactError
from servemark.machine.own_process import words
from servemark.workload import Arrays, Workload

if TYPE_CHECKING:
    import torch
    from torch import nn

ARTIFACT = "model.pt2"
PACKAGES = ()
EXTRA = "torch"
PRECISIONS = ("fp32", "fp16", "bf16")
REFUSED = {
    "int8": "static quantisation of exported programs is torchao's, which servemark does not use",
    "fp8": "PyTorch's convolutions and linear layers take no float8",
}
FROM_ONNX = ()
READS = ()
DEVICE = "cpu"
WITHOUT_GPU = True


def write(job: Job) -> Mapping[str, object]:
    """Write model.pt2. Raises ArtifactError with torch's error message where it has an operator in float32 only."""
    import torch

    # the golden answers, which the example is taken from, and the seeded weights come before anything is cast
    workload, example, model = job.workload, job.example, job.model
    kind = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[job.precision]
    try:
        with _default(kind):
            program = _trace(model, kind, workload, example)
    except RuntimeError as error:
        if job.precision == "fp32":
            raise
        raise ArtifactError(f"{workload.name} cannot be exported in {job.precision}: {words(error)}") from error
    if job.precision != "fp32":
        _say_types(program)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)  # straight to a file, torch's writer aborts the process on a full disk
    job.path.write_bytes(buffer.getbuffer())
    return {}


def _trace(
    model: "nn.Module", kind: "torch.dtype", workload: Workload, example: Arrays
) -> "torch.export.ExportedProgram":
    import torch

    batch: Any = torch.export.Dim("batch")
    sizes: Any = tuple(
        {0: batch} | dict.fromkeys(tensor.variable_axes, torch.export.Dim.DYNAMIC) for tensor in workload.inputs
    )
    hush()
    module = model if kind == torch.float32 else _cast(model, kind)
    return torch.export.export(
        module,
        tuple(torch.from_numpy(example[tensor.name]) for tensor in workload.inputs),
        dynamic_shapes=sizes if module is model else (sizes,),  # of *tensors
    )


def _cast(model: "nn.Module", kind: "torch.dtype") -> "nn.Module":
    """Cast a module and wrap it, so that it takes and answers float32."""
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm

    class Cast(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model.to(kind)

        def forward(self, *tensors: torch.Tensor) -> Any:
            answer = self.model(*(_as(tensor, kind) for tensor in tensors))
            if isinstance(answer, tuple):
                return tuple(_as(each, torch.float32) for each in answer)
            return _as(answer, torch.float32)

    cast = Cast().eval()
    for module in cast.modules():
        if isinstance(module, _BatchNorm):
            module.float()
    return cast


def _say_types(program: "torch.export.ExportedProgram") -> None:
    """Write out each type that is PyTorch's default as it was at the export: who runs the program has another one.

    That is the type of tensors made without one, and of what integers give where they are divided or raised to powers.
    """
    import torch

    for module in program.graph_module.modules():
        for node in list(module.graph.nodes) if isinstance(module, torch.fx.GraphModule) else []:
            made, schema = node.meta.get("val"), getattr(node.target, "_schema", None)
            if schema is None or not _floats(made):
                continue
            if {"dtype", "layout"} <= {argument.name for argument in schema.arguments if argument.kwarg_only}:
                node.kwargs = {**node.kwargs, "dtype": made.dtype}
            elif not any(_floats(read.meta.get("val")) for read in node.all_input_nodes):
                with module.graph.inserting_after(node):
                    cast = module.graph.call_function(torch.ops.aten.to.dtype, (node, made.dtype))
                cast.meta["val"] = made
                node.replace_all_uses_with(cast, delete_user_cb=lambda user, cast=cast: user is not cast)


def _floats(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _as(tensor: "torch.Tensor", kind: "torch.dtype") -> "torch.Tensor":
    return tensor.to(kind) if tensor.is_floating_point() else tensor


@contextmanager
def _default(kind: "torch.dtype") -> Iterator[None]:
    """Make tensors that a model creates without a type of this one."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


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
