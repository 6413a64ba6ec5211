"""Products of a sparse and a dense matrix: A [m, k] in CSR, or 2:4, with the same number of values in each row.

2:4 is what NVIDIA's sparse tensor cores compute: of four neighbours in a row two are there (Mishra et al. 2021,
"Accelerating Sparse Deep Neural Networks").

Operations are those of the values that are there. DeepBench's published figures count 2 m n k sparsity, the work that
is *not* done: it stands beside, as does the dense product's.
"""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

INDEX_BYTES = 4
"""int32, which MKL and cuSPARSE take as it is."""
OF_FOUR, INDEX_BITS = 2, 2
"""Values of four neighbours in 2:4, each with its place among them."""
ROWS, COLUMNS = 32, 64
"""Multiples that PyTorch's 2:4 asks of A."""
HALVES = ("bf16", "fp16")


@dataclass(frozen=True)
class SparseGemm(Kernel):
    """[m, k] with a share `sparsity` of zeros, times a dense [k, n]. The pattern 2:4 has a share of 0.5."""

    m: int
    n: int
    k: int
    sparsity: float
    pattern: Literal["csr", "2:4"] = "csr"

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
        indices = INDEX_BYTES * (values + self.m + 1) if self.pattern == "csr" else values * INDEX_BITS // 8
        return Elements(values + self.k * self.n, self.m * self.n, indices)

    def refusal(self, precision: str, device: str, cores: int) -> str | None:
        if self.pattern == "csr":
            return None
        if device == "cpu":
            return "2:4 sparsity is what a GPU's tensor cores have; no CPU has it"
        if precision not in HALVES:
            return f"PyTorch has 2:4 sparsity in {' and '.join(HALVES)}"
        if self.sparsity != OF_FOUR / 4 or self.m % ROWS or self.k % COLUMNS:
            return f"PyTorch's 2:4 sparsity is of half the values, m in multiples of {ROWS}, k of {COLUMNS}"
        return None

    def algorithm(self, precision: str, device: str) -> str:
        return self.CALL if self.pattern == "csr" else "torch.mm, A by torch.sparse.to_sparse_semi_structured"

    def figures(self, seconds: float) -> dict[str, float]:
        dense = 2 * self.m * self.n * self.k / seconds / 1e12
        return {"dense_equivalent_tflops": dense, "deepbench_tflops": dense * self.sparsity}

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        if self.pattern == "2:4":
            return self._bind_two_of_four(make)
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

    def _bind_two_of_four(self, make: TensorFactory) -> Bound:
        import torch

        values, fours = make.normal(self.m, self.in_row), self.k // 4
        # A first place, and a second that is another: each pair of the four is as likely.
        first, step = make.indices(4, self.m, fours), make.indices(3, self.m, fours) + 1
        places = torch.stack((first, (first + step) % 4), -1).sort(-1).values
        columns = (places + 4 * torch.arange(fours, device=places.device)[:, None]).flatten(1)
        a = torch.sparse.to_sparse_semi_structured(values.new_zeros(self.m, self.k).scatter_(1, columns, values))
        b = make.normal(self.k, self.n)
        return Bound((values, columns, b), lambda: torch.mm(a, b))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        values, columns, b = bound.inputs
        part = sample.of(self.m, 2 * self.k * self.n).to(output.device)
        dense = values.new_zeros((len(part), self.k)).double()
        dense.scatter_(1, columns[part], values[part].double())
        yield output[part], dense @ b.double()
