"""ONNX's backend node tests: each is right in TensorFlow or refused by name; there is no third outcome."""

import re

import pytest

from servemark.frameworks.tensorflow import import_tensorflow
from servemark.paths import CHECKOUT
from tests.support.onnx_node_tests import REFUSED, RIGHT, Case, cases, outcome

PAGE = CHECKOUT / "docs" / "reference" / "engines.md"


def counted(found: list[Case]) -> dict[str, int]:
    outcomes = {case.name: outcome(case) for case in found}
    assert not {name: each for name, each in outcomes.items() if each not in {RIGHT, REFUSED}}
    return {each: list(outcomes.values()).count(each) for each in (RIGHT, REFUSED)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "constant", [pytest.param(False, id="requests"), pytest.param(True, id="constants", marks=pytest.mark.slow)]
)
def test_each_is_right_or_refused_and_the_page_says_how_many(constant: bool) -> None:
    import_tensorflow()
    found = counted([case.with_constants() if constant else case for case in cases()])
    row = "its inputs in the graph" if constant else "its inputs in the request"
    said = re.search(rf"\| {row} \| ([\d,]+) \| ([\d,]+) \|", PAGE.read_text())
    assert said is not None
    assert [int(each.replace(",", "")) for each in said.groups()] == [found[RIGHT], found[REFUSED]]
