"""Names in paths."""

from urllib.parse import unquote

import pytest

from servemark.errors import OptionError
from servemark.repository.names import checked_model, checked_name, in_path

ODD = ["модель", "naïve", "模型", "a b", "50%", "what?", "#1", "a..b", "a+b&c", "%2e%2e", "back\\slash", 'quo"te']
NO_NAMES = ["", ".", "..", "line\nbreak", "nul\0", "\x7f", "\udcff", "x" * 501, "é" * 251]


@pytest.mark.parametrize("name", [*ODD, "org/model"])
def test_a_name_is_one_part_of_a_path(name: str) -> None:
    quoted = in_path(name)
    assert quoted.isascii()
    assert not set(quoted) & set(' /?#"\\')
    assert unquote(quoted) == name


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_not_a_name_is_refused_in_one_line(name: str) -> None:
    for check in (in_path, checked_name, checked_model):
        with pytest.raises(OptionError) as error:
            check(name)
        assert error.value.what.isprintable()


@pytest.mark.parametrize("name", ["../etc", "a/b", "/tmp"])
def test_a_model_of_the_repository_is_a_folder_in_it(name: str) -> None:
    assert checked_name(name) == name
    with pytest.raises(OptionError, match="a slash leads to another folder"):
        checked_model(name)


@pytest.mark.parametrize("name", ODD)
def test_a_folder_may_have_any_name(name: str) -> None:
    assert checked_model(name) == name
