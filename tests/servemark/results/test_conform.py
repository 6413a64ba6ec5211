"""Documents against their types: what a test's validator allows passes, and each damage is named."""

import json
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from servemark.results.conform import defect
from servemark.results.schema.kernels import KernelsDocument
from tests.support.saved_documents import documents


class Inner(TypedDict):
    """Within."""

    size: Annotated[float | None, "How large."]


class Outer(TypedDict):
    """Around."""

    name: Annotated[str, "Its name."]
    kind: Annotated[Literal["a", "b"], "Its kind."]
    count: Annotated[int, "How many."]
    sure: Annotated[bool, "Whether."]
    parts: Annotated[list[Inner], "Within."]
    by_name: Annotated[dict[str, Inner], "Within."]
    more: NotRequired[Annotated[Any, "Anything."]]


GOOD: dict[str, Any] = {
    "name": "x",
    "kind": "a",
    "count": 1,
    "sure": True,
    "parts": [{"size": 1}, {"size": None}],
    "by_name": {"x": {"size": 2.5}},
    "unknown": object,
}


def test_a_document_as_its_type_says_has_no_defect() -> None:
    assert defect(GOOD, Outer) is None
    assert defect({**GOOD, "more": object}, Outer) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 5}, "name is 5, not str"),
        ({"kind": "c"}, "kind is 'c'"),
        ({"kind": ["a"]}, "kind is ['a']"),
        ({"count": True}, "count is True, not int"),
        ({"count": 1.5}, "count is 1.5, not int"),
        ({"sure": 1}, "sure is 1, not bool"),
        ({"parts": {}}, "parts is {}, not list"),
        ({"parts": [{"size": "x"}]}, "parts[0].size is 'x', not float"),
        ({"parts": [{"size": float("nan")}]}, "parts[0].size is nan"),
        ({"parts": [{"size": 10**400}]}, "parts[0].size is 1000"),
        ({"parts": [{}]}, "parts[0] has no size"),
        ({"by_name": []}, "by_name is [], not dict"),
        ({"by_name": {"x": 5}}, "by_name['x'] is 5, no object"),
    ],
)
def test_a_defect_is_named_with_its_place(change: dict[str, Any], words: str) -> None:
    found = defect(GOOD | change, Outer)
    assert found is not None
    assert found.startswith(words)


def test_what_is_missing_and_what_is_no_object_is_said() -> None:
    assert defect({}, Outer) == "the document has no name"
    assert defect([], Outer) == "the document is [], no object"


def test_a_whole_result_has_no_defect(tmp_path: Any) -> None:
    document = json.loads(json.dumps(documents(tmp_path)["kernels"].document))
    assert defect(document, KernelsDocument) is None
