"""Header fields that a user gives, by --headers or in the description of an endpoint: one rule for both.

`Host` may be one of them, because an ingress that is reached by its IP address tells services apart by it. It takes the
place of the URL's: exactly one is sent, over HTTP/2 as `:authority`.
"""

import re
from collections.abc import Iterable, Mapping

HOST = "host"
CONTENT_TYPE = "content-type"
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
"""Characters of a field's name (RFC 9110, section 5.6.2), in lower case."""
_OURS = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", CONTENT_TYPE, "expect", "http2-settings",
        "inference-header-content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
        "upgrade",
    }
)  # fmt: skip
"""Fields that say how a message travels, which is not the user's to say."""
_HOST = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
"""A name or address, and perhaps a port (RFC 9110, section 7.2)."""


def fault_of(name: str, value: str, *, may_give_type: bool = False) -> str | None:
    """Return the reason why a field cannot be sent, without its value; None if it can.

    `may_give_type`: the body is the user's too, so its type may be.
    """
    low = name.lower()
    if not low or not _TOKEN.issuperset(low):
        return "the part before the colon is not a valid field name"
    if (low in _OURS and not (low == CONTENT_TYPE and may_give_type)) or low.startswith("grpc-"):
        return f"{low} says how a message travels, which servemark does"
    if not value or not value.isascii() or not value.isprintable():
        return f"the value of {low} is empty, or has control characters or other than ASCII"
    if low == HOST and not _HOST.fullmatch(value):
        return "the value of host is not HOST or HOST:PORT"
    return None


def twice(names: Iterable[str]) -> str | None:
    """Return the first name that is there twice, whatever its case; None where there is none."""
    seen: set[str] = set()
    for name in map(str.lower, names):
        if name in seen:
            return name
        seen.add(name)
    return None


def merged(*groups: Mapping[str, object]) -> dict[str, object]:
    """Merge fields, of which a later one replaces an earlier one of its name, whatever its case."""
    found: dict[str, tuple[str, object]] = {}
    for group in groups:
        found |= {name.lower(): (name, value) for name, value in group.items()}
    return dict(found.values())


def lines_of(host: str, fields: Mapping[str, object]) -> list[str]:
    """Return the lines of a head after its first: Host, which one of the fields may replace, and the fields."""
    given = {name: value for name, value in fields.items() if name.lower() == HOST}
    others = (f"{name}: {value}" for name, value in fields.items() if name not in given)
    return [f"Host: {next(iter(given.values()), host)}", *others]
