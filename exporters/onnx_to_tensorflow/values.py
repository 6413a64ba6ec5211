"""A value of the graph in one or both of two layouts: channels first, as ONNX has it, or channels last."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

Array = npt.NDArray[np.generic]
LARGE_BYTES = 1 << 16
"""Size of an array from which on it is a weight, and not a shape or an axis."""
_variables: ContextVar[list[tf.Variable] | None] = ContextVar("variables", default=None)


@contextmanager
def weights_as_variables() -> Iterator[list[tf.Variable]]:
    """Make variables of large constants, in the list that is given, while a function is recorded.

    A SavedModel keeps variables in files of their own, which have no limit of size; constants lie in the graph, whose
    file ends at 2 GiB, and which TensorFlow copies some twenty times when it loads it.
    """
    made: list[tf.Variable] = []
    token = _variables.set(made)
    try:
        yield made
    finally:
        _variables.reset(token)


class Value:
    """A constant or tensor. What is made of it is kept for each TensorFlow graph: a loop's body is one of its own."""

    def __init__(self, first: Any = None, *, last: Any = None, sizes: Sequence[int | None] | None = None) -> None:
        self.prefers_last = last is not None
        """Computed with its channels last, so that who can should take it so."""
        self.sizes = sizes
        """Of a shape those of its elements that are known now, None for each other."""
        source = last if self.prefers_last else first
        source = np.asarray(source) if isinstance(source, np.generic) else source
        self.array: Array | None = source if isinstance(source, np.ndarray) else None
        self._source: Any = source
        self._made: dict[tuple[str, Any], Any] = {}
        self._weights: dict[str, tf.Variable] = {}

    @property
    def rank(self) -> int:
        """Number of dimensions. Raises ValueError where TensorFlow does not know."""
        return len(self._source.shape)

    @property
    def has_rank(self) -> bool:
        """True where the number of dimensions is known."""
        return self.array is not None or self._source.shape.rank is not None

    @property
    def shape(self) -> list[int | None]:
        """The sizes, channels first, None for one that varies. Raises ValueError where their number is not known."""
        sizes = list(self._source.shape)
        return [sizes[0], sizes[-1], *sizes[1:-1]] if self.prefers_last else sizes

    @property
    def has_elements(self) -> bool:
        """False for an empty list, which in older files stands for an input that is left out."""
        return 0 not in self._source.shape

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The type of an element."""
        return np.dtype(self.array.dtype if self.array is not None else self._source.dtype.as_numpy_dtype)

    @property
    def first(self) -> Any:
        """The tensor as ONNX has it."""
        return self._in("last" if self.prefers_last else "", channels_first)

    @property
    def last(self) -> Any:
        """The tensor with dimension 1, the channels, moved to the end."""
        return self._in("" if self.prefers_last else "first", channels_last)

    @property
    def filters(self) -> Any:
        """A kernel with its channels, the first two dimensions, at the end: the second one, then the first."""
        return self._in("filters", lambda kernel: transposed(kernel, [*range(2, len(kernel.shape)), 1, 0]))

    @property
    def transposed(self) -> Any:
        """A constant matrix, transposed."""
        return self._in("transposed", np.transpose)

    def picked_sizes(self, index: Any) -> "Value | None":
        """Return elements of a shape, by an index or a slice, if they are all known now."""
        if self.sizes is None:
            return None
        found = np.array(self.sizes, object)[index]
        if any(each is None for each in np.ravel(found)):
            return None
        return Value(np.asarray(found, np.int64))

    def static(self) -> Array | None:
        """The value where it is known now."""
        if self.array is not None:
            return self.array
        found: Array | None = tf.get_static_value(self.first)
        return None if found is None else np.asarray(found)

    def set_shape(self, shape: Sequence[int | None]) -> None:
        """Tell TensorFlow what ONNX knows of the shape, channels first."""
        if isinstance(self._source, tf.Tensor):
            known = list(shape)
            self._source.set_shape([known[0], *known[2:], known[1]] if self.prefers_last else known)

    def _in(self, other: str, move: Callable[[Any], Any]) -> Any:
        """Return the source, or the other layout of it, as a tensor of the graph that is being built."""
        # What is computed at once, among a graph that is being built, is of no graph.
        key = (other, None if tf.executing_eagerly() else tf.compat.v1.get_default_graph())
        if key not in self._made:
            made = move(self._source) if other else self._source
            self._made[key] = self._weight(other, made) if isinstance(made, np.ndarray) else made
        return self._made[key]

    def _weight(self, other: str, array: Array) -> Any:
        """Return a constant of an array, or what a variable of it holds."""
        variables = _variables.get()
        if variables is None or array.nbytes < LARGE_BYTES or tf.executing_eagerly():
            return tf.constant(array)
        if other not in self._weights:
            # In another thread: tf.function refuses variables that are made where it records.
            with ThreadPoolExecutor(1) as thread:
                self._weights[other] = thread.submit(tf.Variable, array, trainable=False).result()
            variables.append(self._weights[other])
        return self._weights[other].read_value()


def channels_last(tensor: Any) -> Any:
    """Move dimension 1 to the end."""
    return transposed(tensor, [0, *range(2, len(tensor.shape)), 1])


def channels_first(tensor: Any) -> Any:
    """Move the last dimension to place 1."""
    rank = len(tensor.shape)
    return transposed(tensor, [0, rank - 1, *range(1, rank - 1)])


def transposed(tensor: Any, order: Sequence[int]) -> Any:
    """Transpose a tensor or an array."""
    return np.transpose(tensor, order) if isinstance(tensor, np.ndarray) else tf.transpose(tensor, order)


def each_of(function: Callable[[Any], Any], value: Value) -> Value:
    """Compute every element by itself, in whichever layout they are."""
    return Value(last=function(value.last)) if value.prefers_last else Value(function(value.first))


def all_of(function: Callable[..., Any], values: Sequence[Value]) -> Value:
    """Compute elements of tensors that broadcast, in whichever layout they are."""
    tensors, last = aligned(values)
    found = function(*tensors)
    return Value(last=found) if last else Value(found)


def aligned(values: Sequence[Value]) -> tuple[list[Any], bool]:
    """Return tensors that broadcast as ONNX says, and whether they have their channels last."""
    rank = max(value.rank for value in values)
    if not any(value.prefers_last and value.rank == rank for value in values):
        return [value.first for value in values], False
    return [_widened(value, rank) for value in values], True


def _widened(value: Value, rank: int) -> Any:
    if value.array is not None and value.array.size == 1:
        return tf.constant(value.array.reshape(()))
    if value.rank in {0, rank}:
        return value.last if value.rank else value.first
    missing = rank - value.rank
    if value.array is not None:
        return Value(value.array.reshape((1,) * missing + value.array.shape)).last
    return channels_last(tf.reshape(value.first, tf.concat([[1] * missing, tf.shape(value.first)], 0)))
