"""Parameters of every request, beside its tensors: KServe v2's `parameters`, by perf_analyzer's flag.

Source: Open Inference Protocol, "Inference Request"; Triton's parameters extension.
"""

import re
from collections.abc import Mapping

from servemark.errors import OptionError
from servemark.quantities import number, one_of, text_of

FLAG = "--request-parameter"
TYPES = {bool: "bool", int: "int", float: "double", str: "string"}
"""Names of the types on the command line."""
OF_SEQUENCES = {"sequence_id", "sequence_start", "sequence_end"}
"""Parameters that --sequence-length sends."""
Parameters = dict[str, bool | int | float | str]
_WHOLE = re.compile(rf"([^:,]+):(.*):({'|'.join(TYPES.values())})")
_DIGITS = re.compile("[-+]?[0-9]{1,19}")
_INT64 = 1 << 63


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
        if not _DIGITS.fullmatch(text) or not -_INT64 <= int(text) < _INT64:
            raise OptionError(
                f"{FLAG} {text!r} is not a whole number of 64 bits", fix=f"like {FLAG} max_tokens:256:int"
            )
        return int(text)
    return number(FLAG, text) if kind == "double" else text


def _text(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return text_of(value) if isinstance(value, float) else str(value)
