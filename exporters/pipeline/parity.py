"""Parity: an artifact has to answer what eager PyTorch answers, at several batch sizes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from exporters.pipeline.job import Run
from exporters.pipeline.steps import FIX
from servemark.errors import ArtifactError
from servemark.repository.entry import Golden
from servemark.workload import Arrays, Workload
from servemark.workload.agreement import (
    Agreement,
    Discrepancy,
    Rows,
    compare_outputs,
    compare_rows,
    discrepancy,
    scale_of,
)
from servemark.workload.golden_check import GoldenCheck


class UncheckedError(ArtifactError):
    """An artifact that can be made on this machine but not run, with the reason: its answers are compared elsewhere."""


BATCH_SIZES = (1, 3)
"""Neither is the batch size that a model is traced with, so a baked-in batch dimension shows."""
OVERFLOWS = "another precision, or a CPU with VNNI: without it sums of 8-bit products may overflow, as they may here"


def measure(
    run: Run, golden: Golden, workload: Workload, agreement: Agreement, *, overflows: bool = False
) -> tuple[dict[int, dict[str, Discrepancy]], GoldenCheck]:
    """Run the artifact on all golden samples: batch size -> output -> discrepancy, and what was found of each sample.

    A run under load checks the same samples. Raises ArtifactError when a batch cannot be run, or an output has another
    shape or dtype or lies outside `agreement`; `overflows`: the CPU may be to blame, which the error then says.
    """
    found: dict[int, dict[str, Discrepancy]] = {}
    compared: dict[str, list[Rows]] = {tensor.name: [] for tensor in workload.outputs}
    rows = golden.rows
    scales = {name: scale_of(reference) for name, reference in golden.outputs.items()}
    sizes = [size for size in BATCH_SIZES if size <= max(workload.max_batch, 1)]
    for size in sizes:
        # Whole batches: the first samples fill up the last one, and do not count again.
        taken = [[row % rows for row in range(start, start + size)] for start in range(0, rows, size)]
        batches = [_run_batch(run, golden.inputs, each, workload) for each in taken]
        found[size] = {}
        for tensor in workload.outputs:
            place = f"{tensor.name} at batch {size}"
            reference = golden.outputs[tensor.name]
            output = _joined([batch[tensor.name] for batch in batches], reference, taken, workload, place)
            each = compare_rows(output, reference, agreement, scales[tensor.name], golden.moves.get(tensor.name))
            found[size][tensor.name] = discrepancy(each, agreement, floating=tensor.dtype.kind == "f")
            if not found[size][tensor.name].agrees:
                repeated = [_run_batch(run, golden.inputs, each, workload) for each in taken]
                again = _joined([batch[tensor.name] for batch in repeated], reference, taken, workload, place)
                steady = compare_outputs(again, output, agreement).agrees
                raise _disagreement(found[size][tensor.name], workload, place, overflows, steady)
            compared[tensor.name].append(each)
    samples = np.tile(np.arange(rows), len(sizes))
    return found, GoldenCheck.of(len(samples), samples, {name: np.concatenate(each) for name, each in compared.items()})


def answers(run: Run, inputs: Arrays, rows: Sequence[int], workload: Workload) -> Arrays:
    """Ask one request of these rows and return a row for each; raises the runtime's own errors."""
    found = run(workload.request([{name: array[row, ...] for name, array in inputs.items()} for row in rows]))
    return found if workload.batched else {name: array[None] for name, array in found.items()}


def _run_batch(run: Run, inputs: Arrays, rows: Sequence[int], workload: Workload) -> Arrays:
    try:
        return answers(run, inputs, rows, workload)
    except Exception as error:  # the engines' exceptions share no other base
        raise ArtifactError(
            f"{workload.name}: the artifact cannot run a batch of {len(rows)}: {error}",
            fix=FIX if _is_given(workload) else f"mend the exporter, or the workload file of {workload.name}",
        ) from error


def _check_form(
    output: npt.NDArray[np.generic], reference: npt.NDArray[np.generic], workload: Workload, place: str
) -> None:
    """Raise ArtifactError where an output has another shape or datatype."""
    if (output.shape, output.dtype) != (reference.shape, reference.dtype):
        raise ArtifactError(
            f"{workload.name}: {place} is {output.dtype} {list(output.shape)}, "
            f"that of {workload.reference} {reference.dtype} {list(reference.shape)}",
            fix=_fix(workload),
        )


def _joined(
    batches: Sequence[npt.NDArray[np.generic]],
    reference: npt.NDArray[np.generic],
    taken: Sequence[list[int]],
    workload: Workload,
    place: str,
) -> npt.NDArray[np.generic]:
    """Join an output's batches, which answer the rows `taken`. Raises ArtifactError where one has another form."""
    for batch, rows in zip(batches, taken, strict=True):
        _check_form(batch, reference[rows], workload, place)
    return np.concatenate(batches)[: len(reference)]


def _disagreement(found: Discrepancy, workload: Workload, place: str, overflows: bool, steady: bool) -> ArtifactError:
    """Make the error of an artifact that answers otherwise; `steady`: it does so twice."""
    if not steady:
        return ArtifactError(
            f"{workload.name}: {place} is another each time that the same request is asked: {found}",
            fix=f"{FIX}, or leave out what is random",
        )
    whose = f"what {workload.reference} answered at import" if workload.source else workload.reference
    return ArtifactError(
        f"{workload.name}: {place} differs from {whose}: {found}",
        fix=OVERFLOWS if overflows else _fix(workload),
    )


def _fix(workload: Workload) -> str:
    if workload.source and workload.source.random_requests:
        return f"{FIX}; or import the model with real requests (--input-data), if random ones make no sense for it"
    if _is_given(workload):
        return FIX
    return f"the engine computes something else, or the agreement in the workload file of {workload.name} is too narrow"


def _is_given(workload: Workload) -> bool:
    """Return True for a model that was imported or is a library's: it has no workload file that could be mended."""
    return bool(workload.source or workload.made_of)
