"""Kinds of layers: the sizes that describe a layer, and what it computes, keeps and moves for one sample.

A layer that is called several times with the same weights, as those of a decoder are, is one layer with that number of
calls. Operations are those of products, a multiply-add as 2 (docs/explanation/metrics.md, "FLOPs").
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from kernels.families.recurrent import GATES

FLOAT_BYTES = 4
Shape = tuple[int, int]
"""Rows and width of a sequence."""


@dataclass(frozen=True, kw_only=True)
class Layer(ABC):
    """One layer. A subclass is a kind, whose fields are its sizes."""

    calls: int = 1
    place: float = field(default=0.0, repr=False, compare=False)
    """Place of its first call among all calls of its workload, from 0 to 1."""

    KIND: ClassVar[str]
    FEATURES: ClassVar[tuple[str, ...]]
    """Sizes and figures whose distributions are compared."""
    SCALED: ClassVar[tuple[str, ...]] = ()
    """Sizes that a search may change on their own."""

    @property
    def parameters(self) -> int:
        """Number of its weights, biases left out; none unless a kind has some."""
        return 0

    @property
    def flops(self) -> int:
        """Operations of all its calls; none unless a kind has products."""
        return 0

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Bytes of input, weights and output of all its calls, in FP32."""


@dataclass(frozen=True)
class Convolution(Layer):
    """A square convolution of two dimensions; sides are that of the filter and that of its input."""

    kernel: int
    stride: int
    inputs: int
    outputs: int
    side: int
    groups: int = 1

    KIND = "convolution"
    FEATURES = ("kernel", "stride", "inputs", "outputs", "side", "flops", "bytes")

    @property
    def side_after(self) -> int:
        """Side of its output, padded as TensorFlow's SAME."""
        return -(-self.side // self.stride)

    @property
    def parameters(self) -> int:
        return self.kernel**2 * self.inputs // self.groups * self.outputs

    @property
    def flops(self) -> int:
        return 2 * self.parameters * self.side_after**2

    @property
    def bytes(self) -> int:
        moved = self.inputs * self.side**2 + self.parameters + self.outputs * self.side_after**2
        return FLOAT_BYTES * moved


@dataclass(frozen=True)
class SequenceLayer(Layer):
    """A layer that reads rows of a sequence and writes rows."""

    @property
    @abstractmethod
    def reads(self) -> Shape:
        """Rows and width of what it reads."""

    @property
    def writes(self) -> Shape:
        """Rows and width of what it writes: those that it reads unless a kind has others."""
        return self.reads

    @property
    def weight(self) -> Shape | None:
        """Shape of its table of weights; None where no other layer can use it."""
        return None

    @property
    def biases(self) -> int:
        """Number of its other parameters, which statistics leave out."""
        return 0

    @property
    def beside(self) -> int:
        """Number of values that each call reads beside its input: weights, or keys and values."""
        return 0

    @property
    def bytes(self) -> int:
        (rows, width), (rows_after, width_after) = self.reads, self.writes
        return FLOAT_BYTES * self.calls * (rows * width + self.beside + rows_after * width_after)


@dataclass(frozen=True)
class Dense(SequenceLayer):
    """A fully connected layer for each row. A `tied` one uses the table of an embedding or of another one."""

    rows: int
    inputs: int
    outputs: int
    activation: str = ""
    """Function behind it: relu, sigmoid, tanh or gelu."""
    tied: bool = False

    KIND = "fully connected"
    FEATURES = ("rows", "inputs", "outputs", "calls", "flops", "bytes")
    SCALED = ("rows", "inputs", "outputs")

    @property
    def parameters(self) -> int:
        return 0 if self.tied else self.inputs * self.outputs

    @property
    def flops(self) -> int:
        return 2 * self.calls * self.rows * self.inputs * self.outputs

    @property
    def beside(self) -> int:
        return self.inputs * self.outputs

    @property
    def reads(self) -> Shape:
        return self.rows, self.inputs

    @property
    def writes(self) -> Shape:
        return self.rows, self.outputs

    @property
    def weight(self) -> Shape | None:
        return self.outputs, self.inputs

    @property
    def biases(self) -> int:
        return self.outputs


@dataclass(frozen=True)
class Recurrent(SequenceLayer):
    """One direction of a recurrent layer: an LSTM, a GRU, or a vanilla one by tanh."""

    cell: str
    steps: int
    inputs: int
    hidden: int

    KIND = "recurrent"
    FEATURES = ("steps", "inputs", "hidden", "calls", "flops", "bytes")
    SCALED = ("steps", "inputs", "hidden")

    @property
    def parameters(self) -> int:
        return GATES[self.cell] * self.hidden * (self.hidden + self.inputs)

    @property
    def flops(self) -> int:
        return 2 * self.calls * self.steps * self.parameters

    @property
    def beside(self) -> int:
        return self.parameters

    @property
    def reads(self) -> Shape:
        return self.steps, self.inputs

    @property
    def writes(self) -> Shape:
        return self.steps, self.hidden

    @property
    def biases(self) -> int:
        return 2 * GATES[self.cell] * self.hidden


@dataclass(frozen=True)
class Attention(SequenceLayer):
    """Scaled dot products of `heads` heads of `width`: `queries` rows look at `keys` rows."""

    heads: int
    queries: int
    keys: int
    width: int

    KIND = "attention"
    FEATURES = ("heads", "queries", "keys", "width", "calls", "flops", "bytes")
    SCALED = ("queries", "keys")

    @property
    def flops(self) -> int:
        return 4 * self.calls * self.heads * self.queries * self.keys * self.width

    @property
    def beside(self) -> int:
        return 2 * self.keys * self.heads * self.width

    @property
    def reads(self) -> Shape:
        return self.queries, self.heads * self.width


@dataclass(frozen=True)
class Embedding(SequenceLayer):
    """`lookups` rows of a table of `rows` rows. Bytes are those of the rows that are taken."""

    rows: int
    width: int
    lookups: int
    tied: bool = False

    KIND = "embedding"
    FEATURES = ("rows", "width", "lookups", "calls", "bytes")
    SCALED = ("rows", "width", "lookups")

    @property
    def parameters(self) -> int:
        return 0 if self.tied else self.rows * self.width

    @property
    def reads(self) -> Shape:
        return self.lookups, self.width

    @property
    def weight(self) -> Shape | None:
        return self.rows, self.width


@dataclass(frozen=True)
class Norm(SequenceLayer):
    """A layer normalisation of rows, with scale and shift. It has no products, so it counts no operations."""

    rows: int
    width: int

    KIND = "layer norm"
    FEATURES = ("rows", "width", "calls", "bytes")
    SCALED = ("rows", "width")

    @property
    def parameters(self) -> int:
        return self.width

    @property
    def beside(self) -> int:
        return 2 * self.width

    @property
    def reads(self) -> Shape:
        return self.rows, self.width

    @property
    def biases(self) -> int:
        return self.width


Kind = TypeVar("Kind", bound=Layer)
KINDS: tuple[type[Layer], ...] = (Convolution, Embedding, Dense, Recurrent, Attention, Norm)
"""In the order of the search: embeddings come before fully connected layers, which may use their tables."""


@dataclass(frozen=True)
class Layers:
    """Layers of one workload in the order of their first calls."""

    workload: str
    layers: tuple[Layer, ...]
    left_out: float = 0.0
    """Share of its operations that lie elsewhere."""

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return its layers of one kind."""
        return [each for each in self.layers if isinstance(each, kind)]
