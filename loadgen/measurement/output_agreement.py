"""Output agreement: what the server answered to golden requests under load, against the golden answers."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loadgen.sut.channel import Answer
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry, Golden
from servemark.workload import Tensor
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
    decoded = [(len(golden_rows), answer.arrays(known)) for golden_rows, answer in sampled]
    rows = {}
    for tensor in known:
        whole = golden.outputs[tensor.name]
        reference = whole[samples].reshape(len(samples), -1)
        # Row by row: without batches an answer is one.
        found = [arrays[tensor.name].reshape(count, -1) for count, arrays in decoded]
        if any(each.shape[1] != reference.shape[1] for each in found):
            # Of another length, which agrees with nothing.
            found = [_unlike(reference)]
        moves = golden.moves[tensor.name][samples] if tensor.name in golden.moves else None
        rows[tensor.name] = compare_rows(np.concatenate(found), reference, limits, scale_of(whole), moves)
    return GoldenCheck.of(len(sampled), samples, rows)


def _unlike(reference: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return values of which none equals its reference."""
    if reference.dtype.kind != "f":
        return np.full(reference.shape, None)
    return np.where(np.isnan(reference), 0, np.nan)
