"""Output agreement: what the server answered to golden requests under load, against eager PyTorch's answers."""

from collections.abc import Sequence

import numpy as np

from loadgen.sut.channel import Answer
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry, Golden
from servemark.workload import Tensor
from servemark.workload.agreement import Agreement, compare_rows
from servemark.workload.checked import Checked

Sampled = Sequence[tuple[tuple[int, ...], Answer]]


def require_fit(golden: Golden, entry: Entry, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Check that golden samples are the workload's, before a run depends on them. Raises ArtifactError."""
    for tensors, arrays in ((inputs, golden.inputs), (outputs, golden.outputs)):
        for tensor in tensors:
            array = arrays.get(tensor.name)
            if array is None or array.dtype != tensor.dtype or not tensor.fits(array.shape[1:]) or not len(array):
                raise ArtifactError(
                    f"{entry.golden} does not hold {tensor.name} {tensor.datatype}{list(tensor.shape)}",
                    fix=entry.export_command(force=True),
                )


def check(sampled: Sampled, golden: Golden, outputs: Sequence[Tensor], limits: Agreement) -> Checked:
    """Compare sampled answers with the golden outputs."""
    if not sampled:
        return Checked()
    samples = np.array([row for golden_rows, _ in sampled for row in golden_rows])
    decoded = [answer.arrays(outputs) for _, answer in sampled]
    rows = {
        tensor.name: compare_rows(
            np.concatenate([arrays[tensor.name] for arrays in decoded]), golden.outputs[tensor.name][samples], limits
        )
        for tensor in outputs
    }
    return Checked.of(len(sampled), samples, rows)
