"""Parity: an artifact has to answer what eager PyTorch answers, at several batch sizes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servemark.errors import ArtifactError
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Workload
from servemark.workload.agreement import Agreement, Discrepancy, compare_outputs

if TYPE_CHECKING:
    from torch import nn

Run = Callable[[Arrays], Arrays]
"""Runs an artifact on one batch."""

ROWS = 6
BATCH_SIZES = (1, 3)
"""Neither is the batch size that a model is traced with, so a baked-in batch dimension shows."""


def eager(model: "nn.Module", workload: Workload, inputs: Arrays) -> Golden:
    """Answer the inputs in eager PyTorch, row by row.

    Raises ArtifactError where the model does not answer what its interface says.
    """
    import torch

    answers: list[tuple[npt.NDArray[np.generic], ...]] = []
    for row in range(len(next(iter(inputs.values())))):
        with torch.inference_mode():
            answer: Any = model(*(torch.from_numpy(inputs[tensor.name][row : row + 1]) for tensor in workload.inputs))
        answers.append(tuple(part.numpy() for part in (answer if isinstance(answer, tuple) else (answer,))))
    outputs = {
        tensor.name: np.concatenate(rows)
        for tensor, rows in zip(workload.outputs, zip(*answers, strict=True), strict=True)
    }
    for tensor in workload.outputs:
        found = outputs[tensor.name]
        if found.dtype != tensor.dtype or not tensor.fits(found.shape[1:]):
            raise ArtifactError(
                f"{workload.name} answers {tensor.name} as {found.dtype} {list(found.shape[1:])}, "
                f"its interface says {tensor.dtype} {list(tensor.shape)}",
                fix=f"fix the workload {workload.name} in servemark/models",
            )
    return Golden(inputs, outputs)


def measure(run: Run, golden: Golden, workload: Workload, agreement: Agreement) -> dict[int, dict[str, Discrepancy]]:
    """Run the artifact on golden rows: batch size -> output -> discrepancy.

    Raises ArtifactError when a batch cannot be run, or an output has another shape or dtype or lies outside
    `agreement`.
    """
    found = {}
    # Whole batches of the largest size.
    rows = min(ROWS, golden.rows) // max(BATCH_SIZES) * max(BATCH_SIZES)
    for size in BATCH_SIZES:
        batches = [
            _run_batch(run, {name: array[start : start + size] for name, array in golden.inputs.items()}, workload)
            for start in range(0, rows, size)
        ]
        found[size] = {
            tensor.name: _compare_output(
                np.concatenate([batch[tensor.name] for batch in batches]),
                golden.outputs[tensor.name][:rows],
                agreement,
                workload.name,
                f"{tensor.name} at batch {size}",
            )
            for tensor in workload.outputs
        }
    return found


def _run_batch(run: Run, inputs: Arrays, workload: Workload) -> Arrays:
    try:
        return run(inputs)
    except Exception as error:  # the engines' exceptions share no other base
        rows = len(next(iter(inputs.values())))
        raise ArtifactError(
            f"{workload.name}: the artifact cannot run a batch of {rows}: {error}",
            fix=f"fix the exporter or the workload {workload.name} in servemark/models",
        ) from error


def _compare_output(
    output: npt.NDArray[np.generic],
    reference: npt.NDArray[np.generic],
    agreement: Agreement,
    workload: str,
    place: str,
) -> Discrepancy:
    fix = f"the engine computes something else, or the agreement of {workload} in servemark/models is too narrow"
    if (output.shape, output.dtype) != (reference.shape, reference.dtype):
        raise ArtifactError(
            f"{workload}: {place} is {output.dtype} {list(output.shape)}, "
            f"eager PyTorch's {reference.dtype} {list(reference.shape)}",
            fix=fix,
        )
    discrepancy = compare_outputs(output, reference, agreement)
    if not discrepancy.agrees:
        raise ArtifactError(
            f"{workload}: {place} differs from eager PyTorch: {discrepancy} (allowed: {agreement})",
            fix=fix,
        )
    return discrepancy
