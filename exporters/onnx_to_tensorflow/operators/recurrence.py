"""GRU, LSTM and plain recurrent layers: one product of all steps' inputs, then a loop over the steps."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from exporters.onnx_to_tensorflow.node import FLOATS, Node, operator
from exporters.onnx_to_tensorflow.values import Value

Step = Callable[[Any, Sequence[Any]], list[Any]]
Functions = Sequence[Callable[[Any], Any]]
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": tf.nn.relu,
    "sigmoid": tf.sigmoid,
    "softplus": tf.math.softplus,
    "softsign": tf.nn.softsign,
    "tanh": tf.tanh,
}


@operator("RNN", types=FLOATS, outputs=2, since=7, ignored=("hidden_size",))
def rnn(
    node: Node,
    *,
    activations: list[str],
    direction: str,
    layout: int | None,
    sequence_lens: Value | None,
    initial_h: Value | None,
) -> Any:
    def step_with(weight: Any, of_state: Any, functions: Functions) -> Step:
        def step(inputs: Any, state: Sequence[Any]) -> list[Any]:
            return [functions[0](inputs + tf.matmul(state[0], weight) + of_state)]

        return step

    return _layer(node, step_with, activations, 1, direction, layout, sequence_lens, [initial_h])


@operator("GRU", types=FLOATS, outputs=2, since=7, ignored=("hidden_size",))
def gru(
    node: Node,
    *,
    activations: list[str] | None,
    direction: str,
    layout: int | None,
    linear_before_reset: int,
    sequence_lens: Value | None,
    initial_h: Value | None,
) -> Any:
    """ONNX's gates come in the order update, reset, candidate."""

    def step_with(weight: Any, of_state: Any, functions: Functions) -> Step:
        gate, squash = functions
        weights, shifts = tf.split(weight, 3, -1), tf.split(of_state, 3, -1)

        def step(inputs: Any, state: Sequence[Any]) -> list[Any]:
            (hidden,) = state
            update_in, reset_in, new_in = tf.split(inputs, 3, -1)
            if linear_before_reset:
                update, reset, new = tf.split(tf.matmul(hidden, weight) + of_state, 3, -1)
                update, reset = gate(update_in + update), gate(reset_in + reset)
                new = squash(new_in + reset * new)
            else:
                update = gate(update_in + tf.matmul(hidden, weights[0]) + shifts[0])
                reset = gate(reset_in + tf.matmul(hidden, weights[1]) + shifts[1])
                new = squash(new_in + tf.matmul(reset * hidden, weights[2]) + shifts[2])
            return [(1 - update) * new + update * hidden]

        return step

    names = activations or ["Sigmoid", "Tanh"] * 2
    return _layer(node, step_with, names, 2, direction, layout, sequence_lens, [initial_h])


@operator("LSTM", types=FLOATS, outputs=3, since=7, ignored=("hidden_size",))
def lstm(
    node: Node,
    *,
    activations: list[str] | None,
    direction: str,
    layout: int | None,
    sequence_lens: Value | None,
    initial_h: Value | None,
    initial_c: Value | None,
    p: Value | None,
) -> Any:
    """ONNX's gates come in the order input, output, forget, cell."""
    node.require(p is None, "with peepholes")

    def step_with(weight: Any, of_state: Any, functions: Functions) -> Step:
        gate, squash, show = functions

        def step(inputs: Any, state: Sequence[Any]) -> list[Any]:
            hidden, cell = state
            enter, leave, forget, new = tf.split(inputs + tf.matmul(hidden, weight) + of_state, 4, -1)
            cell = gate(forget) * cell + gate(enter) * squash(new)
            return [gate(leave) * show(cell), cell]

        return step

    names = activations or ["Sigmoid", "Tanh", "Tanh"] * 2
    return _layer(node, step_with, names, 3, direction, layout, sequence_lens, [initial_h, initial_c])


def _layer(
    node: Node,
    step_with: Callable[[Any, Any, Functions], Step],
    activations: Sequence[str],
    count: int,
    direction: str,
    layout: int | None,
    lengths: Value | None,
    initial: Sequence[Value | None],
) -> Any:
    """Run each direction; inputs are [steps, batch, width], outputs [steps, directions, batch, hidden] and states."""
    node.require(lengths is None, "with sequence_lens")
    names = [each.lower() for each in activations]
    node.require(set(names) <= set(ACTIVATIONS), f"with activations={list(activations)}")
    x = tf.transpose(node.tensor(0), [1, 0, 2]) if layout else node.tensor(0)
    weights, recurrent = (_by_direction(node.value(index)) for index in (1, 2))
    shifts = [tf.split(each, 2) for each in _rows(node.tensor(3), len(weights))] if node.has(3) else []
    starts = [
        None if each is None else _rows(tf.transpose(each.first, [1, 0, 2]) if layout else each.first, len(weights))
        for each in initial
    ]
    outputs, ends = [], []
    for number, backward in enumerate(
        {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    ):
        of_input, of_state = shifts[number] if shifts else (tf.zeros(weights[number].shape[-1:], x.dtype),) * 2
        inputs = tf.tensordot(tf.reverse(x, [0]) if backward else x, weights[number], 1) + of_input
        functions = [ACTIVATIONS[each] for each in names[number * count : (number + 1) * count]]
        zeros = tf.zeros([tf.shape(x)[1], recurrent[number].shape[0]], x.dtype)
        begin = [zeros if each is None else each[number] for each in starts]
        step = step_with(recurrent[number], of_state, functions)
        answer, end = _run(step, inputs, begin)
        outputs.append(tf.reverse(answer, [0]) if backward else answer)
        ends.append(end)
    found = tf.stack(outputs, 1)
    last = [tf.stack(each) for each in zip(*ends, strict=True)]
    if layout:
        return (tf.transpose(found, [2, 0, 1, 3]), *(tf.transpose(each, [1, 0, 2]) for each in last))
    return (found, *last)


def _rows(tensor: Any, count: int) -> list[Any]:
    return [tensor[number] for number in range(count)]


def _by_direction(value: Value) -> list[Any]:
    """Return the transposed weights of each direction."""
    if value.array is not None:
        return [tf.constant(each.T) for each in value.array]
    return [tf.transpose(each) for each in tf.unstack(value.first)]


def _run(step: Step, inputs: Any, starts: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Take all steps: the outputs of each and the last states."""
    if inputs.shape[0] == 1:
        end = step(inputs[0], starts)
        return end[0][None], end
    count = tf.shape(inputs)[0]

    def once(number: Any, state: Any, outputs: Any) -> Any:
        after = step(inputs[number], state)
        return number + 1, after, outputs.write(number, after[0])

    outputs = tf.TensorArray(inputs.dtype, size=count, element_shape=starts[0].shape)
    begin = (tf.constant(0), list(starts), outputs)
    _, end, outputs = tf.while_loop(lambda number, *_: number < count, once, begin)
    return outputs.stack(), list(end)
