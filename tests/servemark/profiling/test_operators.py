"""Each operator has a category, all of the zoo's have theirs; operations and bytes follow the zoo's rule.

They do so in the names and orders of all engines.
"""

import itertools

import pytest

from servemark.frameworks.tensorflow import import_tensorflow
from servemark.profiling import operators
from servemark.profiling.operators import (
    CATEGORIES,
    OTHER,
    Shaped,
    bytes_of,
    category_of,
    flops_of,
    known,
    plain,
    work_of,
)


def test_there_are_eight_and_a_ninth_and_no_operator_has_two() -> None:
    assert (len(CATEGORIES), CATEGORIES[-1]) == (9, OTHER)
    written = [set(words.split()) for words in operators._OPERATORS.values()]
    assert not [one & other for one, other in itertools.combinations(written, 2) if one & other]


def test_all_operators_of_the_zoo_s_exports_have_one() -> None:
    import_tensorflow()
    from exporters.onnx_to_tensorflow import OPERATORS

    assert len(OPERATORS) > 60
    assert not [name for name in OPERATORS if not known(name)]


@pytest.mark.parametrize(
    ("operator", "category"),
    [
        ("aten::max_pool2d", "pooling"),
        ("_FusedConv2D", "convolution"),
        ("_MklNativeFusedConv2D", "convolution"),
        ("aten::_native_batch_norm_legit_no_training", "batch norm"),
        ("FusedMatMul", "gemm"),
        ("LSTM", "gemm"),
        ("BatchNormalization", "batch norm"),
        ("aten::relu_", "relu"),
        ("ReorderInput", "data arrangement"),
        ("aten::_to_copy", "memory copy"),
        ("Eltwise", "element-wise"),
        ("TopK", OTHER),
        ("Frobnicate", OTHER),
    ],
)
def test_names_of_all_engines_are_understood(operator: str, category: str) -> None:
    assert category_of(operator) == category
    assert known(operator) == (operator != "Frobnicate")


def test_the_namespace_does_not_count() -> None:
    assert plain("aten::_adaptive_avg_pool2d") == "adaptiveavgpool2d"


def shapes(*found: tuple[int, ...]) -> list[Shaped]:
    return [Shaped(each) for each in found]


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "flops"),
    [
        ("Conv", [(1, 3, 8, 8), (16, 3, 3, 3), (16,)], (1, 16, 8, 8), 2 * 16 * 64 * 27),
        ("Conv", [(1, 16, 8, 8), (16, 1, 3, 3)], (1, 16, 8, 8), 2 * 16 * 64 * 9),
        ("GroupConvolution", [(1, 16, 8, 8), (16, 1, 1, 3, 3)], (1, 16, 8, 8), 2 * 16 * 64 * 9),
        ("ConvTranspose", [(1, 16, 4, 4), (16, 8, 2, 2)], (1, 8, 8, 8), 2 * 16 * 16 * 8 * 4),
        ("Gemm", [(5, 7), (3, 7), (3,)], (5, 3), 2 * 5 * 7 * 3),
        ("Gemm", [(7, 5), (7, 3)], (5, 3), 2 * 5 * 7 * 3),
        ("MatMul", [(2, 4, 5, 7), (2, 4, 7, 3)], (2, 4, 5, 3), 2 * 8 * 5 * 7 * 3),
        ("MatMulNBits", [(5, 64), (3, 2, 16), (6,)], (5, 3), 2 * 5 * 64 * 3),
        ("FullyConnected", [(5, 64), (3, 2, 32), (3, 2, 1)], (5, 3), 2 * 5 * 64 * 3),
        ("LSTM", [(10, 2, 6), (1, 32, 6), (1, 32, 8)], (10, 1, 2, 8), 2 * 20 * 32 * 14),
        ("LSTMSequence", [(2, 10, 6), *[(2, 1, 8)] * 2, (2,), (1, 32, 6), (1, 32, 8), (1, 32)], (2, 1, 10, 8), 17920),
        ("GRUSequence", [(2, 10, 6), (2, 2, 8), (2,), (2, 24, 6), (2, 24, 8), (2, 32)], (2, 2, 10, 8), 40 * 48 * 14),
        ("RNNSequence", [(2, 10, 6), (2, 1, 8), (2,), (1, 8, 6), (1, 8, 8), (1, 8)], (2, 1, 10, 8), 40 * 8 * 14),
        ("LSTMCell", [(2, 6), (2, 8), (2, 8), (32, 6), (32, 8), (32,)], (2, 8), 4 * 32 * 14),
        ("GRUCell", [(2, 6), (2, 8), (24, 6), (24, 8), (32,)], (2, 8), 4 * 24 * 14),
        ("ScaledDotProductAttention", [(2, 4, 5, 8), *[(2, 4, 7, 8)] * 2, (5, 7)], (2, 4, 5, 8), 4 * 8 * 5 * 7 * 8),
        ("Attention", [(2, 8, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)], (2, 8, 5, 6), 2 * 16 * 5 * 7 * 14),
        ("MultiHeadAttention", [(2, 5, 32), (2, 7, 32), (2, 7, 32)], (2, 5, 32), 4 * 2 * 5 * 7 * 32),
        ("QLinearConv", [(1, 3, 8, 8), (), (), (16, 3, 3, 3), ()], (1, 16, 8, 8), 2 * 16 * 64 * 27),
        ("Softmax", [(5, 7)], (5, 7), 0),
        ("_FusedConv2D", [(1, 8, 8, 3), (3, 3, 3, 16), (16,)], (1, 8, 8, 16), 2 * 16 * 64 * 27),
        ("Conv2DBackpropInput", [(4,), (2, 2, 8, 16), (1, 4, 4, 16)], (1, 8, 8, 8), 2 * 16 * 16 * 8 * 4),
    ],
)
def test_operations(operator: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], flops: int) -> None:
    """TensorFlow has the window first, which matters to convolutions alone."""
    tensorflow_s = operator in {"Conv2DBackpropInput", "_FusedConv2D"}
    for first in {tensorflow_s, tensorflow_s or operator == "MatMul"}:
        assert flops_of(operator, shapes(*inputs), shapes(output), window_first=first) == flops


def test_bytes() -> None:
    assert bytes_of("Add", shapes((10,), (10,)), shapes((10,))) == 120
    assert bytes_of("Reshape", shapes((10,)), shapes((2, 5))) == 0
    table, indices = Shaped((1000, 4)), Shaped((3,), 8)
    assert bytes_of("Gather", [table, indices], shapes((3, 4))) == 2 * 48 + 24


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [
        ("Conv", [(1, 3, 8, 8)]),
        ("LSTMCell", [(2, 6), (2, 8)]),
        ("Attention", [(2, 5, 32), (32, 96), (96,)]),
        ("MultiHeadAttention", [(2, 5, 4, 3, 8)]),
        ("MHA", [(2, 5, 4, 8)] * 3),
    ],
)
def test_what_the_shapes_do_not_tell_is_unknown(operator: str, inputs: list[tuple[int, ...]]) -> None:
    assert flops_of(operator, shapes(*inputs), shapes((1, 16, 8, 8))) is None


def test_neither_is_known_where_a_shape_is_not() -> None:
    [data] = shapes((10,))
    assert work_of("Add", [data, data], [data]) == (0, 120)
    assert work_of("Add", [data, None], [data]) == work_of("Add", [data, data], [None]) == (None, None)
