"""Output agreement: what the server answered to golden requests under load, against the golden answers."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loadgen.sut.channel import Answer
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry, Golden
from servemark.workload import Arrays, Tensor
from servemark.workload.agreement import Agreement, compare_rows, scale_of
from servemark.workload.golden_check import GoldenCheck

Sampled = Sequence[tuple[tuple[int, ...], Answer]]


def require_fit(golden: Golden, entry: Entry, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Check that an export's golden samples are the workload's. Raises ArtifactError.

    Those of a user's file were checked where they were read.
    """
    if golden.origin:
        return
    for tensors, arrays in ((inputs, golden.inputs), (outputs, golden.outputs)):
        for tensor in tensors:
            array = arrays.get(tensor.name)
            if array is None or array.dtype != tensor.dtype or not tensor.fits(array.shape[1:]) or not len(array):
                raise ArtifactError(
                    f"{entry.golden} does not hold {tensor.name} {tensor.datatype}{list(tensor.shape)}",
                    fix=entry.export_command(force=True),
                )


def check(sampled: Sampled, golden: Golden, outputs: Sequence[Tensor], limits: Agreement) -> GoldenCheck:
    """Compare sampled answers with the golden outputs that there are."""
    if not sampled:
        return GoldenCheck()
    samples = np.array([row for golden_rows, _ in sampled for row in golden_rows])
    known = [tensor for tensor in outputs if tensor.name in golden.outputs]
    decoded = [_decoded(answer, known) for _, answer in sampled]
    rows = {}
    for tensor in known:
        whole = golden.outputs[tensor.name]
        # Row by row: without batches an answer is one.
        wanted = [whole[list(golden_rows)].reshape(len(golden_rows), -1) for golden_rows, _ in sampled]
        reference = np.concatenate(wanted)
        # What cannot be read, or is of another length, agrees with nothing.
        found = [
            arrays[tensor.name].reshape(each.shape)
            if arrays is not None and arrays[tensor.name].size == each.size
            else _unlike(each)
            for each, arrays in zip(wanted, decoded, strict=True)
        ]
        moves = golden.moves[tensor.name][samples] if tensor.name in golden.moves else None
        rows[tensor.name] = compare_rows(np.concatenate(found), reference, limits, scale_of(whole), moves)
    return GoldenCheck.of(len(sampled), samples, rows)


def _decoded(answer: Answer, outputs: Sequence[Tensor]) -> Arrays | None:
    """Decode the outputs of an answer; None where it has their sizes and not their values."""
    try:
        return answer.arrays(outputs)
    except ValueError:
        return None


def _unlike(reference: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return values of which none equals its reference."""
    if reference.dtype.kind != "f":
        return np.full(reference.shape, None)
    return np.where(np.isnan(reference), 0, np.nan)
