"""Documents by kind: what fits its type is returned as it is, and what does not is named with its path."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from servemark.results.kinds import conformed, type_of
from servemark.results.schema.run import PendingResult, Result, Series
from tests.support.saved_documents import documents


class Inner(TypedDict):
    """Within."""

    size: Annotated[float | None, "How large."]


class Outer(TypedDict):
    """Around."""

    kind: Annotated[Literal["a", "b"], "Its kind."]
    count: Annotated[int, "How many."]
    parts: Annotated[list[Inner], "Within."]
    by_name: NotRequired[Annotated[dict[str, Inner], "Within."]]


GOOD: dict[str, Any] = {"kind": "a", "count": 1, "parts": [{"size": 1, "size_reason": None}], "added": object}


def test_a_document_that_fits_keeps_further_keys() -> None:
    assert conformed(GOOD, Outer) is GOOD


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"kind": "c"}, r"\$\.kind"),
        ({"count": True}, r"\$\.count"),
        ({"count": 1.5}, r"\$\.count"),
        ({"parts": {}}, r"\$\.parts"),
        ({"parts": [{"size": 10**400}]}, r"\$\.parts\[0\]\.size"),
        ({"parts": [{}]}, r"`size` - at `\$\.parts\[0\]"),
        ({"by_name": {"x": 5}}, r"\$\.by_name"),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(change: dict[str, Any], path: str) -> None:
    with pytest.raises(ValueError, match=path):
        conformed(GOOD | change, Outer)


def test_the_kind_gives_the_type() -> None:
    assert type_of({"kind": "load", "verdict": {}}) is Result
    assert type_of({"kind": "load", "verdict": None}) is PendingResult
    assert type_of({"results": []}) is Series
    assert type_of({"kind": "other"}) is None


def test_a_whole_document_fits(tmp_path: Path) -> None:
    for saved in documents(tmp_path).values():
        if saved.kind == "suites":
            continue  # it is made for a page and never written
        kind = type_of(saved.document)
        assert kind is not None
        conformed(json.loads(json.dumps(saved.document)), kind)
