"""Documents by kind: what fits its type is returned as it is, what does not has its path; the types are the schema."""

import json
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from jsonschema import Draft202012Validator, ValidationError

from servemark.errors import OptionError
from servemark.results.kinds import KINDS, conformed, json_schema, type_of
from servemark.results.saved import Saved
from servemark.results.schema.run import PendingResult, Result, Series
from tests.support.command_line import Servemark


class Inner(TypedDict):
    """An inner document."""

    share: Annotated[float | None, "A share."]


class Outer(TypedDict):
    """An outer document."""

    mode: Annotated[Literal["a", "b"], "A word."]
    inner: Annotated[Inner | None, "A document or none."]
    many: Annotated[list[Inner], "Several."]
    counts: Annotated[dict[str, int], "Counts."]
    extra: NotRequired[Annotated[Any, "Anything."]]


GOOD: dict[str, Any] = {
    "mode": "a",
    "inner": None,
    "inner_reason": "there is none",
    "many": [{"share": 1}],
    "counts": {"x": 2},
}


def test_a_document_that_fits_keeps_further_keys() -> None:
    document = GOOD | {"added": object}
    assert conformed(document, Outer) is document


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"mode": "c"}, r"\$\.mode"),
        ({"counts": {"x": True}}, r"\$\.counts\[\.\.\.\]"),
        ({"counts": {"x": 1.5}}, r"\$\.counts\[\.\.\.\]"),
        ({"counts": 5}, r"\$\.counts"),
        ({"many": {}}, r"\$\.many"),
        ({"many": [{"share": 10**400}]}, r"\$\.many\[0\]\.share"),
        ({"many": [{}]}, r"`share` - at `\$\.many\[0\]"),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ValueError, match=path):
        conformed(GOOD | changes, Outer)


def test_the_kind_gives_the_type() -> None:
    assert type_of({"kind": "load", "verdict": {}}) is Result
    assert type_of({"kind": "load", "verdict": None}) is PendingResult
    assert type_of({"results": []}) is Series
    assert type_of({"kind": "other"}) is None


def test_a_whole_document_fits(saved: dict[str, Saved]) -> None:
    for each in saved.values():
        if each.kind != "suites":  # they are made for a page and never written
            kind = type_of(each.document)
            assert kind is not None
            conformed(json.loads(json.dumps(each.document)), kind)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"inner": {"share": None, "reason": "not known"}, "extra": [1]}, None),
        ({"mode": "c"}, "'c' is not one of"),
        ({"many": [{}]}, "'share' is a required property"),
        ({"many": [{"share": "1"}]}, "is not of type 'number', 'null'"),
        ({"counts": {"x": 2.5}}, "is not of type 'integer'"),
        ({"other": 1}, "'other' does not match"),
        ({"inner_reason": 1}, "is not of type 'string', 'null'"),
    ],
)
def test_a_type_is_its_schema(changes: dict[str, Any], fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "outer", (Outer,))
    validator = Draft202012Validator(json_schema("outer", closed=True))
    if fault is None:
        validator.validate(GOOD | changes)
    else:
        with pytest.raises(ValidationError, match=fault):
            validator.validate(GOOD | changes)
    # The published schema allows what later versions add.
    assert Draft202012Validator(json_schema("outer")).is_valid(GOOD | {"added": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_of_every_kind_is_described(kind: str) -> None:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    for name, definition in schema["$defs"].items():
        assert definition["description"], name
        for key, described in definition["properties"].items():
            assert described["description"].endswith(".") or described["description"] == "true", f"{name}.{key}"


def test_the_command_prints_a_schema_and_an_unknown_kind_is_refused(servemark: Servemark) -> None:
    done = servemark("schema", "suite")
    assert (done.code, json.loads(done.out)) == (0, json_schema("suite"))
    with pytest.raises(OptionError, match="unknown kind of document 'run'"):
        json_schema("run")
