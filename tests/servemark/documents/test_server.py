"""--request-parameter, as text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servemark.documents.server import Server, parameters_of, parameters_text
from servemark.errors import OptionError
from tests.support.load_config import arguments, config
from tests.support.load_config import parse as parse_flags

TEXT = "max_tokens:256:int,greedy:false:bool,temperature:0.7:double,stop:a,b:c:string"


def test_each_type_is_read() -> None:
    found = parameters_of(TEXT)
    assert found == {"max_tokens": 256, "greedy": False, "temperature": 0.7, "stop": "a,b:c"}
    assert [type(value) for value in found.values()] == [int, bool, float, str]
    assert parameters_of("") == {}


plain = st.text("ab :-{}\"'", max_size=5)
values = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), plain
)


@given(st.dictionaries(st.text("ab_ /", min_size=1), values, max_size=4))
def test_the_flag_says_the_same(parameters: dict[str, bool | int | float | str]) -> None:
    assert parameters_of(parameters_text(parameters)) == parameters


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_tokens:256", "'max_tokens:256' is not NAME:VALUE:TYPE"),
        ("a:1:int,b:2:long", "'b:2:long' is not NAME:VALUE:TYPE"),
        ("a:yes:bool", "'yes' is unknown"),
        ("a:1.5:int", "'1.5' is not a whole number of 64 bits"),
        ("a:9223372036854775808:int", "not a whole number of 64 bits"),
        ("sequence_id:5:int", "is what --sequence-length sends"),
    ],
)
def test_what_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parameters_of(text)


def test_a_document_gives_whole_numbers_of_64_bits() -> None:
    assert Server(request_parameters={"a": -(2**63), "b": 9007199254740993}).request_parameters["b"] == 2**53 + 1
    with pytest.raises(OptionError, match="'a:9223372036854775808:int' is not a whole number of 64 bits"):
        Server(request_parameters={"a": 2**63})
    with pytest.raises(OptionError, match="holds a text that reads like NAME:VALUE:TYPE"):
        Server(request_parameters={"p": "a:string,q:b"})


def test_a_configuration_keeps_them() -> None:
    load = config("ranking_tiny", "--request-parameter", TEXT)
    assert parse_flags(arguments(load.request)) == load.request
    assert load.to_dict()["server"]["request_parameters"]["stop"] == "a,b:c"
    with pytest.raises(OptionError, match="not in shared memory"):
        config("ranking_tiny", "--request-parameter", TEXT, "--shared-memory", "system")
