"""Prometheus exporters that are read beside a run: `--scrape NAME=URL#PREFIX,...`."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from servemark.errors import OptionError

_FIX = "--scrape node=http://127.0.0.1:9100/metrics#node_load,node_memory_MemAvailable"
OURS = {"machine", "triton"}


@dataclass(frozen=True)
class Exporter:
    """An exporter, and the beginnings of the names of its metrics that are kept; none: all."""

    name: str
    url: str
    prefixes: tuple[str, ...] = ("",)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read NAME=URL or NAME=URL#PREFIX,... . Raises OptionError."""
        name, _, rest = text.partition("=")
        url, _, prefixes = rest.partition("#")
        parts = urlsplit(url)
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,40}", name) or parts.scheme != "http" or not parts.hostname:
            raise OptionError(f"--scrape {text!r} is not NAME=http://HOST:PORT/metrics", fix=_FIX)
        if name in OURS or parts.username:
            why = f"the name {name} is taken" if name in OURS else "the URL holds a user, which would be shown"
            raise OptionError(f"--scrape {text!r}: {why}", fix=_FIX)
        wanted = tuple(each.strip() for each in prefixes.split(",") if each.strip())
        return cls(name, url, wanted or ("",))


def parse_all(texts: tuple[str, ...]) -> tuple[Exporter, ...]:
    """Read the exporters of a request. Raises OptionError, also for a name that is there twice."""
    found = tuple(Exporter.parse(text) for text in texts)
    names = [each.name for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(f"--scrape has {twice} twice", fix="give each exporter a name of its own")
    return found
