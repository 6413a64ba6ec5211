"""The configuration of a model says what its workload says, whatever letters that has."""

from dataclasses import replace

import pytest

from exporters.pipeline import config_pbtxt
from servemark.repository.model_config import parse
from servemark.workload import Tensor, get


def test_a_tensor_s_name_stays_a_name() -> None:
    """A parameter EXECUTION_ENV_PATH is a program that Triton's Python backend starts."""
    ranking = get("ranking_tiny")
    name = 'x" data_type: TYPE_FP32 } ] parameters { key: "EXECUTION_ENV_PATH" value: { string_value: "é\\'
    workload = replace(ranking, inputs=(replace(ranking.inputs[0], name=name), *ranking.inputs[1:]))
    config = parse(config_pbtxt.render(workload, model="m", engine="pytorch", artifact="model.pt2"))
    assert config.input[0].name == name
    assert "EXECUTION_ENV_PATH" not in config.parameters


@pytest.mark.parametrize(("most", "written"), [(8, "dims: [ 1 ] reshape: { shape: [ ] }"), (0, "dims: [ 1 ]")])
def test_one_value_per_sample_has_a_dimension_in_triton(most: int, written: str) -> None:
    """Triton refuses `dims: [ ]`, and an empty reshape of a model without batches."""
    label = Tensor("label", "INT64", ())
    workload = replace(get("ranking_tiny"), outputs=(label,), max_batch=most)
    config = config_pbtxt.render(workload, model="m", engine="onnxruntime", artifact="model.onnx")
    assert f'{{ name: "label" data_type: TYPE_INT64 {written} }}' in config
    assert list(parse(config).output[0].dims) == [1]
