"""Answers in JSON whose form was judged once: numbers are counted where they stand, and not read.

A server repeats itself: two answers differ in an id and in the values of the tensors. Comparing what lies around them
and counting their commas takes a small part of the time that parsing them does.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from loadgen.transport.limits import MAX_REMEMBERED_BYTES

_HOLE = re.compile(rb'"id"\s*:\s*"([^"\\]*)"|"data"\s*:\s*\[([^\[\]"]*)\]')
_OF_NUMBERS = b"0123456789+-.eE, \t\r\n"


@dataclass(frozen=True)
class JsonForm:
    """A good answer without its values: `parts` lie around the holes, of which `counts` says how many numbers each has.

    None is the count of an id. A list of strings or of lists is not such a hole: an answer with one has no form.
    """

    parts: tuple[bytes, ...]
    counts: tuple[int | None, ...]

    @classmethod
    def of(cls, body: bytes, sizes: Sequence[int]) -> Self | None:
        """Find the form of a right answer, with these numbers of elements in its outputs; None if it has no form."""
        parts, counts, position = [], list[int | None](), 0
        for hole in _HOLE.finditer(body):
            group = 1 if hole[1] is not None else 2
            start, position_after = hole.span(group)
            parts.append(body[position:start])
            counts.append(None if group == 1 else hole[2].count(b",") + 1)
            position = position_after
        parts.append(body[position:])
        form = cls(tuple(parts), tuple(counts))
        known = [count for count in counts if count is not None] == list(sizes) and 0 not in sizes
        short = sum(map(len, parts)) <= MAX_REMEMBERED_BYTES
        return form if known and short and form.fits(body) else None

    def fits(self, body: bytes) -> bool:
        """Return True if an answer has this form: only its id and its numbers may differ."""
        position = 0
        for part, count in zip(self.parts, self.counts, strict=False):
            if not body.startswith(part, position):
                return False
            position += len(part)
            end = body.find(b'"' if count is None else b"]", position)
            if end < 0:
                return False
            if count is not None:
                values = body[position:end]
                if values.count(b",") + 1 != count or values.translate(None, _OF_NUMBERS):
                    return False
            position = end
        return body[position:] == self.parts[-1]
