"""GRU and LSTM layers: one product of all steps' inputs, then a loop over the steps."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.graph import Node, Unsupported, operator

Step = Callable[[Any, Sequence[Any]], list[Any]]


@operator("GRU")
def gru(node: Node) -> Any:
    """ONNX's gates come in the order update, reset, candidate."""
    node.require(linear_before_reset=1)

    def step_with(weight: Any, bias: Any) -> Step:
        def step(inputs: Any, state: Sequence[Any]) -> list[Any]:
            (hidden,) = state
            update_in, reset_in, new_in = tf.split(inputs, 3, -1)
            update, reset, new = tf.split(tf.matmul(hidden, weight) + bias, 3, -1)
            update, reset = tf.sigmoid(update_in + update), tf.sigmoid(reset_in + reset)
            return [(1 - update) * tf.tanh(new_in + reset * new) + update * hidden]

        return step

    return _layer(node, step_with, states=1)


@operator("LSTM")
def lstm(node: Node) -> Any:
    """ONNX's gates come in the order input, output, forget, cell."""
    node.require(input_forget=0)

    def step_with(weight: Any, bias: Any) -> Step:
        def step(inputs: Any, state: Sequence[Any]) -> list[Any]:
            hidden, cell = state
            enter, leave, forget, new = tf.split(inputs + tf.matmul(hidden, weight) + bias, 4, -1)
            cell = tf.sigmoid(forget) * cell + tf.sigmoid(enter) * tf.tanh(new)
            return [tf.sigmoid(leave) * tf.tanh(cell), cell]

        return step

    return _layer(node, step_with, states=2)


def _layer(node: Node, step_with: Callable[[Any, Any], Step], states: int) -> Any:
    """Run each direction; inputs are [steps, batch, width], outputs [steps, directions, batch, hidden] and states."""
    if node.has(4) or node.has(7) or "activations" in node.attributes:
        raise Unsupported(f"{node.type} with lengths, peepholes or other activations")
    node.require(layout=0)
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    x = node.tensor(0)
    weights, recurrent = node.static(1), node.static(2)
    size = recurrent.shape[-1]
    bias = node.static(3) if node.has(3) else np.zeros((len(weights), 2 * weights.shape[1]), weights.dtype)
    outputs, ends = [], []
    for number, backward in enumerate(directions[node.attributes.get("direction", "forward")]):
        of_input, of_state = np.split(bias[number], 2)
        inputs = tf.tensordot(tf.reverse(x, [0]) if backward else x, tf.constant(weights[number].T), 1) + of_input
        zeros = tf.zeros([tf.shape(x)[1], size], x.dtype)
        starts = [node.tensor(5 + each)[number] if node.has(5 + each) else zeros for each in range(states)]
        answer, end = _run(step_with(tf.constant(recurrent[number].T), of_state), inputs, starts)
        outputs.append(tf.reverse(answer, [0]) if backward else answer)
        ends.append(end)
    return (tf.stack(outputs, 1), *(tf.stack(each) for each in zip(*ends, strict=True)))


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
