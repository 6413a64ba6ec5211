"""Memory: copy, scale, add and triad as STREAM has them (McCalpin 1995), a sum, and copies between host and device.

Bytes are those that the program asks for: a CPU that reads a line before it writes it moves a third to a half more.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

Operation = Literal["copy", "scale", "add", "triad", "sum", "host_to_device", "device_to_host"]
FLOPS = {"copy": 0, "scale": 1, "add": 1, "triad": 2, "sum": 1, "host_to_device": 0, "device_to_host": 0}
SCALAR = 3.0
"""STREAM's."""


@dataclass(frozen=True)
class Memory(Kernel):
    """c = a; 3 a; a + b; a + 3 b; the sum of a, which only reads; or a way between host and device, pinned or not."""

    operation: Operation
    length: int
    pinned: bool = False

    OPERATIONS: ClassVar = "an element: copy 0, scale 1, add 1, triad 2, sum 1"
    CALL: ClassVar = "torch.Tensor.copy_, torch.mul, torch.add, torch.sum"

    def flops(self) -> int:
        return FLOPS[self.operation] * self.length

    def elements(self) -> Elements:
        read = (2 if self.operation in {"add", "triad"} else 1) * self.length
        return Elements(read, 1 if self.operation == "sum" else self.length)

    def refusal(self, precision: str, device: str, cores: int) -> str | None:
        return "there is no GPU to copy to" if device == "cpu" and "device" in self.operation else None

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        if self.operation == "sum":
            positive = make.uniform(self.length)  # whose sum is none of small differences
            return Bound((positive,), lambda: torch.sum(positive, 0, keepdim=True))
        a, c = make.normal(self.length), make.empty(self.length)
        if self.operation in {"host_to_device", "device_to_host"}:
            host = a.cpu().pin_memory() if self.pinned else a.cpu()
            source, target = (host, c) if self.operation == "host_to_device" else (a, host.clone())
            if self.pinned and self.operation == "device_to_host":
                target = target.pin_memory()
            return Bound((source,), lambda: target.copy_(source, non_blocking=self.pinned))
        b = make.normal(self.length) if self.operation in {"add", "triad"} else a
        calls = {
            "copy": lambda: c.copy_(a),
            "scale": lambda: torch.mul(a, SCALAR, out=c),
            "add": lambda: torch.add(a, b, out=c),
            "triad": lambda: torch.add(a, b, alpha=SCALAR, out=c),
        }
        return Bound((a, b) if b is not a else (a,), calls[self.operation])

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        if self.operation == "sum":
            yield output, bound.inputs[0].double().sum(0, keepdim=True)
            return
        part = sample.of(self.length, 100)
        a, b = (each[part.to(each.device)].double() for each in (bound.inputs[0], bound.inputs[-1]))
        right = {"scale": SCALAR * a, "add": a + b, "triad": a + SCALAR * b}.get(self.operation, a)
        yield output[part.to(output.device)], right.to(output.device)
