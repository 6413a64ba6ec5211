"""2:4 sparsity: the four layers of BERT-large at 16,384 tokens, each dense and sparse.

The sizes are `nvidia-bert` of PyTorch's `benchmarks/sparse/benchmark_semi_structured_sparsity.py`.
"""

from kernels.measurement.case import Case

LAYERS = ((3072, 1024), (4096, 1024), (1024, 1024), (1024, 4096))
"""m and k."""
TOKENS = 16_384


def two_of_four() -> list[Case]:
    """A product of each layer, then the same by half of its values. The dense one has PyTorch's order of C."""
    found = []
    for m, k in LAYERS:
        found.append(Case.of("gemm", "PyTorch, BERT-large", m=TOKENS, n=m, k=k))
        found.append(Case.of("sparse_gemm", "PyTorch, BERT-large", m=m, n=TOKENS, k=k, sparsity=0.5, pattern="2:4"))
    return found


SUITES = {"two-of-four": two_of_four}
