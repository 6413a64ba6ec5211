"""Positions of the contents of fields in a serialised message."""

import pytest

from servemark.protobuf import Messages, contents

MESSAGES = Messages("test", {"Inner": "values float* 1, name string 2", "Outer": "id int64 1, inner Inner* 3"})


def test_contents_are_found_within_messages() -> None:
    values = [[1.5, -2.0], [3.0]]
    inner = [MESSAGES.message("Inner", values=each, name="n" * 200) for each in values]
    serialised = MESSAGES.message("Outer", id=1 << 40, inner=inner).SerializeToString()
    found = contents(serialised, {3: {1: None}})
    assert [MESSAGES.parse("Inner", b"\x0a" + bytes([last - first]) + serialised[first:last]).values[:]
            for first, last in found] == values  # fmt: skip
    assert [serialised[first:last] for first, last in contents(serialised, {3: {2: None}})] == [b"n" * 200] * 2
    assert contents(serialised, {1: None, 9: None}) == []


def test_a_group_is_refused() -> None:
    with pytest.raises(ValueError, match="wire type 3"):
        contents(b"\x0b\x0c", {1: None})
