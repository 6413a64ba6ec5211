"""Categories: each operator has one, all of the zoo's have theirs, and one that nobody knows is named."""

import itertools

import pytest

from servemark.frameworks.tensorflow import import_tensorflow
from servemark.profiling import categories
from servemark.profiling.categories import CATEGORIES, OTHER, category_of, known, plain


def test_there_are_eight_and_a_ninth() -> None:
    assert len(CATEGORIES) == 9
    assert CATEGORIES[-1] == OTHER


def test_no_operator_has_two() -> None:
    written = {name: set(words.split()) for name, words in categories._OPERATORS.items()}
    pairs = itertools.combinations(written.values(), 2)
    assert not [one & other for one, other in pairs if one & other]


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
