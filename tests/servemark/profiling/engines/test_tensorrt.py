"""TensorRT's names of layers hold the nodes that a kernel was made of."""

import pytest

from servemark.profiling.engines.tensorrt import operator_of


@pytest.mark.parametrize(
    ("layer", "operator"),
    [
        ("node_Conv_754 + node_relu", "Conv"),
        ("PWN(PWN(node_Sigmoid_3), node_Mul_4)", "Sigmoid"),
        ("Reformatting CopyNode for Input Tensor 0", "Reformatting CopyNode for Input Tensor 0"),
    ],
)
def test_the_operator_of_a_fused_layer(layer: str, operator: str) -> None:
    assert operator_of(layer) == operator
