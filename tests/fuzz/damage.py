"""Strategies that make hostile documents of right ones."""

import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

MAX_DOCUMENT = 1 << 18
"""Damage that repeats parts stops here."""
NUMBERS = (
    "-1", "0", "1", "1.5", "-0", "1e999", "-1e999", "1e-999", "NaN", "Infinity", "2147483648", "4294967295",
    "9007199254740993", "9223372036854775808", "18446744073709551616", "1" + "0" * 18, "1" + "0" * 400, "9" * 5000,
)  # fmt: skip
"""Ends of the numbers' ranges: 32, 53 and 64 bits, floats, and the digits that Python takes."""
ODD = (
    b"", b"\0", b"\xff", b"\xff" * 9, b"\xed\xa0\x80", b"\r\n", b"\n", b"\x1b[2J", b"\\ud800", b"\xe2\x80\xa8", b'"',
    b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b'"x"', b"{}", b"[]", *(n.encode() for n in NUMBERS),
)  # fmt: skip
DEEP = (b"[", b'{"a":', b"{", b"\x12\x04", b"(", b"<")

Change = Callable[[DrawFn, bytes], bytes]


def _span(draw: DrawFn, data: bytes) -> tuple[int, int]:
    first = draw(st.integers(0, len(data)))
    return first, min(len(data), first + draw(st.sampled_from((1, 2, 4, 16, 64, 1 << 20))))


def _flip(draw: DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    return data[:at] + bytes([(data[at] if data else 0) ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]


def _cut(draw: DrawFn, data: bytes) -> bytes:
    return data[: draw(st.integers(0, len(data)))]


def _remove(draw: DrawFn, data: bytes) -> bytes:
    first, last = _span(draw, data)
    return data[:first] + data[last:]


def _repeat(draw: DrawFn, data: bytes) -> bytes:
    first, last = _span(draw, data)
    times = min(draw(st.sampled_from((1, 2, 10, 1000, 100_000))), MAX_DOCUMENT // max(last - first, 1))
    return data[:last] + data[first:last] * times + data[last:]


def _overwrite(draw: DrawFn, data: bytes) -> bytes:
    first, last = _span(draw, data)
    return data[:first] + draw(st.binary(max_size=16)) + data[last:]


def _number(draw: DrawFn, data: bytes) -> bytes:
    found = list(re.finditer(rb"[0-9]+", data))
    if not found:
        return data
    number = draw(st.sampled_from(found))
    return data[: number.start()] + draw(st.sampled_from(NUMBERS)).encode() + data[number.end() :]


def _nest(draw: DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    deep = draw(st.sampled_from(DEEP))
    return data[:at] + deep * draw(st.sampled_from((90, 500, 1000, 5000, 20_000))) + data[at:]


_CHANGES: tuple[Change, ...] = (_flip, _cut, _remove, _repeat, _overwrite, _number, _nest)


@st.composite
def damaged(draw: DrawFn, documents: SearchStrategy[bytes], words: Sequence[bytes] = ()) -> bytes:
    """A document with up to four changes; `words` are the format's own, put in anywhere. Often it stays right."""
    data = draw(documents)
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, len(_CHANGES) + 1))
        if kind < len(_CHANGES):
            data = _CHANGES[kind](draw, data)
        elif kind == len(_CHANGES):
            at = draw(st.integers(0, len(data)))
            data = data[:at] + draw(st.sampled_from((*ODD, *words))) + data[at:]
        else:  # splice
            other = draw(documents)
            data = data[: draw(st.integers(0, len(data)))] + other[draw(st.integers(0, len(other))) :]
    return data[:MAX_DOCUMENT]


ODD_VALUES = st.one_of(
    st.sampled_from((None, True, False, 0, -1, 0.5, "", "x", [], {}, [[]], [{}], [None], "\ud800", "\x1b[2J")),
    st.sampled_from((2**31, 2**53 + 1, 2**63, 2**64, 10**400, float("inf"), float("nan"), 1e300)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values of a document below its top."""
    items: list[tuple[Any, Any]] = []
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    return [place for key, value in items for place in ((*path, key), *places(value, (*path, key)))]


@st.composite
def odd_json(draw: DrawFn, trees: SearchStrategy[Any]) -> bytes:
    """A JSON document of which up to three values are others, or are missing; or one with damaged text."""
    tree = json.loads(json.dumps(draw(trees)))
    for _ in range(draw(st.integers(0, 3))):
        if not (found := places(tree)):
            break
        *way, last = draw(st.sampled_from(found))
        parent = tree
        for key in way:
            parent = parent[key]
        if draw(st.booleans()):
            parent[last] = deepcopy(draw(ODD_VALUES))  # the next change may lie in it
        else:
            del parent[last]
    return json.dumps(tree).encode()


def hostile_json(trees: SearchStrategy[Any], words: Sequence[bytes] = ()) -> SearchStrategy[bytes]:
    """JSON of another shape than it should have, and what is no JSON any more."""
    return st.one_of(
        odd_json(trees), damaged(odd_json(trees), words), ODD_VALUES.map(lambda value: json.dumps(value).encode())
    )
