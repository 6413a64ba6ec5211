"""Kinds of failure of answers whose outputs are not as described, with words that name output, expected and seen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from servemark.workload import Tensor

MAX_CHARACTERS = 300


class Mismatch(str):
    """A kind of failure, as other kinds a text, with `words` about the first output that is not as described.

    They are made where the answer is judged, and kept with the judgement where that is remembered.
    """

    __slots__ = ("words",)
    words: str

    def __new__(cls, kind: str, words: str) -> Self:
        made = super().__new__(cls, kind)
        made.words = words[:MAX_CHARACTERS]
        return made

    @classmethod
    def of(cls, kind: str, tensor: Tensor, lead: Sequence[int], seen: str) -> Self:
        """Name an output of a batch of `lead`, as it is expected, and what was seen."""
        return cls(kind, f"output {tensor.name!r} is expected as {_form(tensor, lead)}, and the answer has {seen}")

    @classmethod
    def missing(cls, tensor: Tensor, lead: Sequence[int], listed: Iterable[object]) -> Self:
        """Name an output that an answer does not have, and those that it has."""
        has = ", ".join(map(str, listed)) or "none"
        return cls("missing_output", f"output {tensor.name!r} {_form(tensor, lead)} is missing; the answer has {has}")


def judge_outputs(
    described: Mapping[str, Any],
    outputs: Iterable[Tensor],
    lead: Sequence[int],
    judge: Callable[[Any, Tensor], str | None],
) -> str | None:
    """Return the kind of error of the first output that is missing or judged wrong; None if all are right."""
    for tensor in outputs:
        output = described.get(tensor.name)
        error = Mismatch.missing(tensor, lead, described) if output is None else judge(output, tensor)
        if error:
            return error
    return None


def _form(tensor: Tensor, lead: Sequence[int]) -> str:
    return f"{tensor.datatype}{[*lead, *tensor.shape]}"
