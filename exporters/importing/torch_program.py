"""torch.export programs (.pt2): tensors in the order of the program's arguments.

Loading one can run code of its maker; it is loaded because the user named it (docs/explanation/architecture.md).
"""

import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.importing.model_file import DATATYPES, OPEN, ModelDescription, TensorInfo, unusable

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

ENGINE = "pytorch"
KIND = "a torch.export program"
ANEW = "torch.export.save(torch.export.export(model, (example,), dynamic_shapes=({0: Dim('batch')},)), PATH)"


def recognises(path: Path) -> bool:
    """Return True if the path is a .pt2 file."""
    return path.is_file() and path.suffix == ".pt2"


def describe(path: Path) -> ModelDescription:
    """Load a program and read its signature. Raises ArtifactError."""
    import torch

    if not zipfile.is_zipfile(path):
        raise unusable(path, "it is not a torch.export program, or a truncated one", fix=ANEW)
    try:
        program = torch.export.load(path)
    except Exception as error:  # a damaged archive surfaces as anything from BadZipFile to AssertionError
        words = " ".join(str(error).split())[:200]
        raise unusable(path, f"torch {torch.__version__} cannot load it: {words}", fix=ANEW) from error
    nodes = {node.name: node for node in program.graph.nodes}
    arguments, keywords = program.call_spec.in_spec.children()
    if keywords.num_leaves or any(not child.is_leaf() for child in arguments.children()):
        raise unusable(path, "it takes more than tensors in order: keywords, or tensors in lists", fix=ANEW)
    answers = program.call_spec.out_spec
    assert answers is not None
    if not (answers.is_leaf() or (answers.type is tuple and all(child.is_leaf() for child in answers.children()))):
        raise unusable(path, "it answers something else than a tensor or a tuple of tensors", fix=ANEW)
    names, given = program.graph_signature.user_outputs, program.graph_signature.user_inputs
    if constants := [name for name in (*given, *names) if not isinstance(name, str) or name not in nodes]:
        raise unusable(path, f"it takes or answers {constants[0]!r}, a constant and no tensor", fix=ANEW)
    outputs = ["output"] if len(names) == 1 else [f"output_{number}" for number in range(len(names))]
    taken = [nodes[str(name)] for name in given]
    return ModelDescription(
        inputs=tuple(_port(path, node.name, node.meta["val"]) for node in taken),
        outputs=tuple(
            _port(path, shown, nodes[str(name)].meta["val"]) for shown, name in zip(outputs, names, strict=True)
        ),
        facts={"opset": None},
        parameters=sum(parameter.numel() for parameter in program.parameters()),
        max_batch=_largest_batch(program, taken[0].meta["val"]) if taken else None,
        flops=lambda shapes: _flops(program, [(shapes[node.name], node.meta["val"].dtype) for node in taken]),
    )


def place(path: Path, version: Path) -> None:
    """Copy the file as model.pt2."""
    version.mkdir(parents=True)
    shutil.copyfile(path, version / "model.pt2")


def _port(path: Path, name: str, value: Any) -> TensorInfo:
    import torch

    kind = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
    if not isinstance(value, torch.Tensor) or kind not in DATATYPES:
        raise unusable(path, f"its {name!r} is {kind}, and a workload has tensors of {', '.join(DATATYPES)}", fix=ANEW)
    return TensorInfo(name, DATATYPES[kind], tuple(size if isinstance(size, int) else OPEN for size in value.shape))


def _largest_batch(program: "ExportedProgram", value: "torch.Tensor") -> int | None:
    """Return the program's upper bound of its first dimension; None if it has none."""
    size: Any = value.shape[0] if value.dim() else 1
    bounds = program.range_constraints.get(size.node.expr) if hasattr(size, "node") else None
    upper = getattr(bounds, "upper", None)
    return int(upper) if upper is not None and upper.is_Integer and int(upper) < 1 << 31 else None


def _flops(program: "ExportedProgram", inputs: "list[tuple[tuple[int, ...], torch.dtype]]") -> int | None:
    """Count products as PyTorch does, a multiply-add as 2."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        try:
            program.module()(*(torch.zeros(shape, dtype=dtype) for shape, dtype in inputs))
        except Exception:  # what is wrong shows where golden samples are answered
            return None
    return int(counter.get_total_flops())
