"""The published schema is made of the types, describes every key, and takes what was written before."""

import json
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from jsonschema import Draft202012Validator, ValidationError

from servemark.errors import OptionError
from servemark.results.kinds import KINDS, json_schema
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


GOOD = {"mode": "a", "inner": None, "inner_reason": "there is none", "many": [{"share": 1}], "counts": {"x": 2}}


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


def test_the_published_schema_allows_what_later_versions_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "outer", (Outer,))
    assert Draft202012Validator(json_schema("outer")).is_valid(GOOD | {"added": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_of_every_kind_is_described(kind: str) -> None:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    for name, definition in schema["$defs"].items():
        assert definition["description"], name
        for key, described in definition["properties"].items():
            assert described["description"].endswith(".") or described["description"] == "true", f"{name}.{key}"


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(OptionError, match="unknown kind of document 'run'"):
        json_schema("run")


def test_the_command_prints_it(servemark: Servemark) -> None:
    done = servemark("schema", "suite")
    assert (done.code, json.loads(done.out)) == (0, json_schema("suite"))
