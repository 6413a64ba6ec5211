"""Products of a sparse and a dense matrix: A [m, k] in CSR, with the same number of values in each row.

Operations are those of the values that are there. DeepBench's published figures count 2 m n k sparsity, the work that
is *not* done: it stands beside, as does the dense product's.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from servemark.kernels.measurement.kernel import Bound, Elements, Kernel, Maker, Sample

if TYPE_CHECKING:
    import torch

    from servemark.kernels.measurement.kernel import Output

INDEX_BYTES = 4
"""int32, which MKL and cuSPARSE take as it is."""


@dataclass(frozen=True)
class SparseGemm(Kernel):
    """[m, k] with a share `sparsity` of zeros, times a dense [k, n]."""

    m: int
    n: int
    k: int
    sparsity: float

    OPERATIONS: ClassVar = "2 n for each value that is there"
    CALL: ClassVar = "torch.addmm, A in CSR"

    @property
    def in_row(self) -> int:
        """Values of a row."""
        return max(1, round(self.k * (1 - self.sparsity)))

    def flops(self) -> int:
        return 2 * self.m * self.in_row * self.n

    def elements(self) -> Elements:
        values = self.m * self.in_row
        return Elements(values + self.k * self.n, self.m * self.n, INDEX_BYTES * (values + self.m + 1))

    def figures(self, seconds: float) -> dict[str, float]:
        dense = 2 * self.m * self.n * self.k / seconds / 1e12
        return {"dense_equivalent_tflops": dense, "deepbench_tflops": dense * self.sparsity}

    def bind(self, make: Maker) -> Bound:
        import torch

        values, width = make.normal(self.m, self.in_row), self.k // self.in_row
        # One column at random of each stretch: distinct, in order, and spread over the row.
        columns = make.indices(width, self.m, self.in_row)
        columns += width * torch.arange(self.in_row, device=columns.device)
        begins = torch.arange(self.m + 1, dtype=torch.int32, device=columns.device) * self.in_row
        flat = columns.flatten().to(torch.int32)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            # The indices are right by how they are made: said, so that PyTorch does not ask.
            a = torch.sparse_csr_tensor(begins, flat, values.flatten(), (self.m, self.k), check_invariants=False)
        b, out = make.normal(self.k, self.n), make.empty(self.m, self.n)
        return Bound((values, columns, b), lambda: torch.addmm(out, a, b, beta=0, out=out))

    def expected(self, bound: Bound, output: "Output", sample: Sample) -> "Iterator[tuple[torch.Tensor, torch.Tensor]]":
        from torch import Tensor

        assert isinstance(output, Tensor)
        values, columns, b = bound.inputs
        part = sample.of(self.m, 2 * self.k * self.n).to(output.device)
        dense = values.new_zeros((len(part), self.k)).double()
        dense.scatter_(1, columns[part], values[part].double())
        yield output[part], dense @ b.double()


KERNEL = SparseGemm
