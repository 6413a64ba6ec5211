"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), in PyTorch's fused form."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory


@dataclass(frozen=True)
class Attention(Kernel):
    """`heads` heads of `width`, each of `queries` over `keys`, without a mask."""

    batch: int
    heads: int
    queries: int
    keys: int
    width: int

    OPERATIONS: ClassVar = "4 batch heads queries keys width: both products (FlashAttention, Dao et al. 2022)"
    CALL: ClassVar = "torch.nn.functional.scaled_dot_product_attention"

    def flops(self) -> int:
        return 4 * self.batch * self.heads * self.queries * self.keys * self.width

    def elements(self) -> Elements:
        each = self.batch * self.heads * self.width
        return Elements(each * (self.queries + 2 * self.keys), each * self.queries)

    def bind(self, make: TensorFactory) -> Bound:
        from torch.nn.functional import scaled_dot_product_attention

        lengths = (self.queries, self.keys, self.keys)
        query, key, value = (make.normal(self.batch, self.heads, length, self.width) for length in lengths)
        return Bound((query, key, value), lambda: scaled_dot_product_attention(query, key, value))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        part = sample.of(self.queries, self.flops() / self.queries).to(output.device)
        query, key, value = (each.double() for each in bound.inputs)
        scores = query[:, :, part] @ key.mT / math.sqrt(self.width)
        yield output[:, :, part], scores.softmax(-1) @ value
