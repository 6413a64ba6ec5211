"""Parameters of every request, beside its tensors: KServe v2's `parameters`, by perf_analyzer's flag.

Source: Open Inference Protocol, "Inference Request"; Triton's parameters extension.
"""

import re
from collections.abc import Mapping

from servemark.documents.fields import Word
from servemark.errors import OptionError
from servemark.quantities import INT64, number, one_of, text_of

FLAG = "--request-parameter"
TYPES = {bool: "bool", int: "int", float: "double", str: "string"}
"""Names of the types on the command line."""
OF_SEQUENCES = {"sequence_id", "sequence_start", "sequence_end"}
"""Parameters that --sequence-length sends."""
Parameters = dict[Word, bool | int | float | Word]
_WHOLE = re.compile(rf"([^:,]+):(.*):({'|'.join(TYPES.values())})")
_DIGITS = re.compile("[-+]?[0-9]{1,19}")


def parse(text: str) -> Parameters:
    """Read NAME:VALUE:TYPE, several with commas between; a string may hold commas and colons. Raises OptionError."""
    found: dict[str, bool | int | float | str] = {}
    waiting = ""
    for part in (text or "").split(","):
        waiting = f"{waiting},{part}" if waiting else part
        if match := _WHOLE.fullmatch(waiting):
            name, value, kind = match.groups()
            found[name], waiting = _value(value, kind), ""
    if waiting:
        raise OptionError(
            f"{FLAG} {waiting!r} is not NAME:VALUE:TYPE",
            fix=f"like max_tokens:256:int; types: {', '.join(TYPES.values())}",
        )
    if taken := sorted(found.keys() & OF_SEQUENCES):
        raise OptionError(f"{FLAG} {taken[0]} is what --sequence-length sends", fix="--sequence-length N")
    return found


def written(parameters: Mapping[str, bool | int | float | str]) -> str:
    """The text that `parse` reads so."""
    return ",".join(f"{name}:{_text(value)}:{TYPES[type(value)]}" for name, value in parameters.items())


def _value(text: str, kind: str) -> bool | int | float | str:
    if kind == "bool":
        return one_of(FLAG, text, ("true", "false")) == "true"
    if kind == "int":
        if not _DIGITS.fullmatch(text) or not _is_int64(int(text)):
            raise _not_int64(text)
        return int(text)
    return number(FLAG, text) if kind == "double" else text


def check_parameters(parameters: Mapping[str, bool | int | float | str]) -> None:
    """Check whole numbers that a document gives: the protocol's are of 64 bits with a sign. Raises OptionError."""
    for name, value in parameters.items():
        if isinstance(value, int) and not _is_int64(value):
            raise _not_int64(f"{name}:{value}:int")


def _is_int64(value: int) -> bool:
    return -INT64 - 1 <= value <= INT64


def _not_int64(text: str) -> OptionError:
    return OptionError(f"{FLAG} {text!r} is not a whole number of 64 bits", fix=f"like {FLAG} max_tokens:256:int")


def _text(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return text_of(value) if isinstance(value, float) else str(value)
