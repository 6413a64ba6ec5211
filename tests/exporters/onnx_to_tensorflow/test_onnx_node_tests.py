"""ONNX's backend node tests: each is right in TensorFlow or refused by name; there is no third outcome."""

import re

import pytest
from onnx import AttributeProto

from servemark.frameworks.tensorflow import import_tensorflow
from servemark.paths import CHECKOUT
from tests.support.onnx_node_tests import REFUSED, RIGHT, Case, cases, outcome

PAGE = CHECKOUT / "docs" / "reference" / "engines.md"


def counted(found: list[Case]) -> dict[str, int]:
    outcomes = {case.name: outcome(case) for case in found}
    assert not {name: each for name, each in outcomes.items() if each not in {RIGHT, REFUSED}}
    return {each: list(outcomes.values()).count(each) for each in (RIGHT, REFUSED)}


def kind(case: Case) -> tuple[object, ...]:
    """The kind of a case, by what the converter tells apart: operators, inputs and attributes that are there, types."""
    nodes, types = case.model.graph.node, [array.dtype.kind for array in case.inputs.values()]
    words = [(each.name, each.s if each.type == AttributeProto.STRING else b"") for each in nodes[0].attribute]
    return (*(node.op_type for node in nodes), *map(bool, nodes[0].input), *sorted(words), *types)


@pytest.mark.timeout(600)
def test_one_of_each_kind_is_right_or_refused() -> None:
    import_tensorflow()
    assert counted([*{kind(case): case for case in cases()}.values()])[RIGHT] > 300


@pytest.mark.slow  # a thousand conversions, of which the fast suite has one of each kind
@pytest.mark.timeout(600)
@pytest.mark.parametrize("constant", [False, True], ids=["requests", "constants"])
def test_each_is_right_or_refused_and_the_page_says_how_many(constant: bool) -> None:
    import_tensorflow()
    found = counted([case.with_constants() if constant else case for case in cases()])
    row = "its inputs in the graph" if constant else "its inputs in the request"
    said = re.search(rf"\| {row} \| ([\d,]+) \| ([\d,]+) \|", PAGE.read_text())
    assert said is not None
    assert [int(each.replace(",", "")) for each in said.groups()] == [found[RIGHT], found[REFUSED]]
