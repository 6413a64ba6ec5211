"""Kinds of network that people serve: TensorFlow answers what ONNX Runtime answers, or names what it lacks."""

import pytest

from tests.support import kinds_of_models
from tests.support.kinds_of_models import KINDS, exported
from tests.support.onnx_models import check, refusal


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_converted(name: str) -> None:
    made, inputs = exported(name)
    check(made, inputs)


def test_what_tensorflow_has_no_operators_for_is_refused_with_words() -> None:
    assert refusal(kinds_of_models.tree_ensemble())[1] == ("ai.onnx.ml.TreeEnsembleRegressor",)
    assert refusal(kinds_of_models.strings())[0] == "'x', a tensor of STRING"
