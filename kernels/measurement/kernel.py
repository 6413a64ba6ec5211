"""The contract of a kernel: sizes, counts, random inputs, the call that is timed, and what float64 says it must answer.

A family is one module of `kernels.families`: a frozen dataclass of the sizes, and no other Kernel.
"""

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from kernels.libraries import Node
from kernels.measurement.device import FLOATING, PRECISIONS
from servemark.plugins import modules_of
from servemark.quantities import one_of

if TYPE_CHECKING:
    import torch

Pairs: TypeAlias = "Iterator[tuple[torch.Tensor, torch.Tensor]]"
"""Parts of the output, each with what float64 says it must be."""

Size = int | float | str | bool | tuple[int, ...]
MAX_CHECKED_FLOPS = 2e9
"""FLOPs above which a random part of the output is checked: float64 takes about a second for these on two cores."""
FAMILIES = "kernels.families"


class Elements(NamedTuple):
    """Elements that a kernel has to move once each, however small the caches are."""

    read: int
    written: int
    index_bytes: int = 0
    """Bytes of indices, whose type does not depend on the precision."""


@dataclass(frozen=True)
class Bound:
    """A kernel with tensors: `call` computes once, and returns what it wrote."""

    inputs: "tuple[torch.Tensor, ...]"
    call: "Callable[[], Any]"
    release: Callable[[], None] = lambda: None
    """Ends what the call needs beside tensors, as other processes."""
    read: Callable[[], Any] | None = None
    """Read the output of the last call, for a call that does not return PyTorch's tensors."""


class TensorFactory:
    """Makes a kernel's tensors: on one device, in one precision, from a seed."""

    def __init__(self, precision: str, device: str = "cpu", seed: int = 0) -> None:
        import torch

        self.precision, self.device = precision, device
        self.dtype: torch.dtype = getattr(torch, PRECISIONS[precision].dtype)
        self._generator = torch.Generator(device).manual_seed(seed)

    def normal(self, *shape: int) -> "torch.Tensor":
        """Normally distributed numbers, of int8 whole ones of 7 bits; none is so small that a type makes it 0.

        A CPU with AVX2 and without VNNI adds two products of 8 bits into 16, which numbers beyond 64 overflow.
        """
        import torch

        if self.dtype == torch.int8:
            sizes = self._integers(1, 65, shape)
            return torch.where(self._integers(0, 2, shape) == 0, -sizes, sizes).to(torch.int8)
        drawn = torch.randn(shape, generator=self._generator, device=self.device)
        return drawn.to(self.dtype)

    def uniform(self, *shape: int, low: float = 0.5) -> "torch.Tensor":
        """Numbers from `low` to 1, such as variances."""
        import torch

        drawn = torch.rand(shape, generator=self._generator, device=self.device)
        return (low + (1 - low) * drawn).to(self.dtype)

    def indices(self, below: int, *shape: int) -> "torch.Tensor":
        """Whole numbers (int64), from 0."""
        return self._integers(0, below, shape)

    def empty(self, *shape: int) -> "torch.Tensor":
        """Allocate an output and touch its pages, because a first touch of memory is not part of a kernel."""
        import torch

        integers, small = self.dtype == torch.int8, self.precision == "fp8"
        dtype = torch.int32 if integers else torch.bfloat16 if small else self.dtype
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def _integers(self, low: int, high: int, shape: tuple[int, ...]) -> "torch.Tensor":
        import torch

        return torch.randint(low, high, shape, generator=self._generator, device=self.device)


class Sample:
    """Part of an output that is checked: all of it, or as many random elements as float64 computes in a second."""

    def __init__(self, seed: int = 0, max_flops: float = MAX_CHECKED_FLOPS) -> None:
        self._seed, self._max_flops = seed, max_flops

    def of(self, count: int, flops_each: float) -> "torch.Tensor":
        """Indices of those of `count` parts that are checked, at least one, in order (int64, on the CPU)."""
        import torch

        fitting = max(1, min(count, math.floor(self._max_flops / max(flops_each, 1))))
        if fitting == count:
            return torch.arange(count)
        chosen = torch.randperm(count, generator=torch.Generator().manual_seed(self._seed))[:fitting]
        return chosen.sort().values


class Kernel(ABC):
    """One kernel. A subclass is a frozen dataclass of its sizes."""

    PRECISIONS: ClassVar[tuple[str, ...]] = FLOATING
    """Precisions that it can compute in."""
    OPERATIONS: ClassVar[str]
    """Rule by which its operations are counted, in words."""
    CALL: ClassVar[str]
    """PyTorch's function that is timed."""
    MAY_BE_COLD: ClassVar[bool] = True
    """True if several sets of tensors can be taken in turn."""

    @abstractmethod
    def flops(self) -> int:
        """Operations of one call, by the family's rule."""

    @abstractmethod
    def elements(self) -> Elements:
        """Elements that one call has to read and write."""

    @abstractmethod
    def bind(self, make: TensorFactory) -> Bound:
        """Make the tensors, and the call that is timed."""

    @abstractmethod
    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        """Yield the written output, a tensor or several, and the answer of float64, for the part that is checked."""

    def refusal(self, precision: str, device: str, cores: int) -> str | None:
        """Return the reason why these sizes cannot be measured there, None if they can."""
        return None

    def node(self) -> Node | None:
        """The same as one node of ONNX, of the inputs of `bind`, for other libraries. None: PyTorch alone."""
        return None

    def shorter(self) -> "Kernel | None":
        """Return the same with fewer steps, by which the fixed time of a call is known. None: it has no steps."""
        return None

    def figures(self, seconds: float) -> dict[str, float]:
        """Further figures of the family from the time of one call, by name."""
        return {}

    def algorithm(self, precision: str, device: str) -> str:
        """Name PyTorch's function that is timed."""
        return self.CALL

    def traffic(self, precision: str) -> int:
        """Bytes that one call has to move."""
        elements, size = self.elements(), PRECISIONS[precision]
        return elements.read * size.read_bytes + elements.written * size.written_bytes + elements.index_bytes

    def held_bytes(self, precision: str) -> int:
        """Memory of its tensors: more than it moves, where it takes a part of them."""
        return self.traffic(precision)

    def sizes(self) -> dict[str, Size]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in _fields(self)}

    def label(self) -> str:
        """The sizes in words, without those that have their default: "m=64 n=1 k=1216 a_t"."""
        words = []
        for field in _fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                shown = "x".join(map(str, value)) if isinstance(value, tuple) else value
                words.append(field.name if value is True else f"{field.name}={shown}")
        return " ".join(words)


def _fields(kernel: Kernel) -> "tuple[dataclasses.Field[Size], ...]":
    return dataclasses.fields(kernel)  # type: ignore[arg-type]  # each subclass is a dataclass


@functools.cache
def families() -> dict[str, type[Kernel]]:
    """All families by name, in order of name."""
    modules = modules_of(FAMILIES)
    kernels = {each.__module__: each for each in Kernel.__subclasses__()}
    return {name: kernels[module.__name__] for name, module in modules.items()}


def make_kernel(family: str, sizes: Mapping[str, object]) -> Kernel:
    """A kernel from its sizes, lists of a JSON document included. Raises OptionError on an unknown family."""
    made = families()[one_of("family", family, families())]
    return made(**{name: tuple(value) if isinstance(value, list) else value for name, value in sizes.items()})
