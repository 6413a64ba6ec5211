"""Embedding gather: rows of a table by random indices, as of recommenders and words."""

from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.libraries import Node
from kernels.measurement.device import PRECISIONS
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

INDEX_BYTES = 8


@dataclass(frozen=True)
class Embedding(Kernel):
    """`lookups` rows of a table of `rows` x `width`. Bytes are those of the rows that are taken, with their indices."""

    rows: int
    width: int
    lookups: int

    OPERATIONS: ClassVar = "none"
    CALL: ClassVar = "torch.index_select"

    def flops(self) -> int:
        return 0

    def elements(self) -> Elements:
        return Elements(self.lookups * self.width, self.lookups * self.width, INDEX_BYTES * self.lookups)

    def held_bytes(self, precision: str) -> int:
        return self.traffic(precision) + self.rows * self.width * PRECISIONS[precision].read_bytes

    def node(self) -> Node | None:
        return Node("Gather", (0, 1), constants=(0,), attributes={"axis": 0})

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        table, out = make.normal(self.rows, self.width), make.empty(self.lookups, self.width)
        indices = make.indices(self.rows, self.lookups)
        return Bound((table, indices), lambda: torch.index_select(table, 0, indices, out=out))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        part = sample.of(self.lookups, 100 * self.width).to(output.device)
        table, indices = bound.inputs
        yield output[part], table[indices[part]].double()
