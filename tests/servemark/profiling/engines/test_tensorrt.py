"""TensorRT's names of layers hold the nodes that a kernel was made of."""

import pytest

from servemark.errors import OptionError
from servemark.profiling.engines import profiler_module
from servemark.profiling.engines.tensorrt import operator_of
from servemark.repository.entry import Entry


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


def test_a_cpu_is_refused(tmp_path: "object") -> None:
    with pytest.raises(OptionError, match="GPUs only"):
        profiler_module("tensorrt").load(Entry.of_folder(tmp_path), "cpu", {})  # type: ignore[arg-type]  # not read
