"""What generated inputs look like: sizes, ranges and texts, as the flags give them."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field

from servemark.errors import OptionError
from servemark.quantities import number, text_of, whole

DEFAULT_STRING_LENGTH = 128


@dataclass(frozen=True)
class InputOptions:
    """Shapes and ranges by the names of inputs; shapes leave out the batch dimension."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The least and the greatest value."""
    string_length: int = DEFAULT_STRING_LENGTH
    string_data: str | None = None

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> "InputOptions":
        """Read the flags. Raises OptionError."""
        shapes = {name: tuple(map(_size, sizes)) for name, sizes in _named("--shape", options.shape)}
        ranges: dict[str, tuple[float, float]] = {}
        for least_of, [most] in _named("--range", options.range, 1):
            name, _, least = least_of.rpartition(":")
            if not name:
                raise _not_like("--range", least_of, "ids:0:30521")
            ranges[name] = number("--range", least), number("--range", most)
            if ranges[name][0] > ranges[name][1]:
                raise OptionError(f"--range {name}:{least}:{most} ends before it begins", fix="--range NAME:LEAST:MOST")
        length = whole("--string-length", options.string_length, 0)
        return cls(shapes, ranges, length, options.string_data or None)

    def options(self) -> dict[str, str]:
        """The flags that say so, by name."""
        return {
            "shape": ",".join(f"{name}:{','.join(map(str, sizes))}" for name, sizes in self.shapes.items()),
            "range": ",".join(f"{name}:{text_of(a)}:{text_of(b)}" for name, (a, b) in self.ranges.items()),
            "string_length": str(self.string_length),
            "string_data": self.string_data or "",
        }

    def to_config(self) -> dict[str, object]:
        """The same for result.json, where it is not the usual."""
        shapes = {name: list(sizes) for name, sizes in self.shapes.items()}
        ranges = {name: list(bounds) for name, bounds in self.ranges.items()}
        text = {"string_length": self.string_length} if self.string_length != DEFAULT_STRING_LENGTH else {}
        given = {"shape": shapes, "range": ranges, "string_data": self.string_data}
        return {key: value for key, value in given.items() if value} | text

    @property
    def named(self) -> set[str]:
        """The inputs that are named."""
        return {*self.shapes, *self.ranges}


def _named(flag: str, text: str, least: int = 0) -> list[tuple[str, list[str]]]:
    """Read NAME:a,b,NAME:c: what follows a name's last colon, split at commas. Raises OptionError."""
    found: list[tuple[str, list[str]]] = []
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        name, colon, value = part.rpartition(":")
        if colon and name:
            found.append((name, [value] if value else []))
        elif found and not colon:
            found[-1][1].append(part)
        else:
            raise _not_like(flag, part, "NAME:3,224,224" if flag == "--shape" else "ids:0:30521")
    if least and any(len(values) != least for _, values in found):
        raise _not_like(flag, text, "ids:0:30521")
    return found


def _size(text: str) -> int:
    return whole("--shape", text, 0)


def _not_like(flag: str, text: str, example: str) -> OptionError:
    return OptionError(f"{flag} {text!r} cannot be read", fix=f"write it like {flag} {example}")
