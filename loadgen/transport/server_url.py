"""A server's URL as the user writes it, and where its metrics are."""

from urllib.parse import urlsplit

from servemark.errors import OptionError
from servemark.quantities import one_of

DEFAULT_URLS = {"http": "http://127.0.0.1:8000", "grpc": "grpc://127.0.0.1:8001"}
SCHEMES = {"http": "http", "https": "http", "grpc": "grpc", "grpcs": "grpc"}
"""Protocol of each URL scheme; the s means TLS."""

METRICS = "#metrics="
"""Comes in addresses between processes after a server's URL, before the place of its metrics."""
DEFAULT_PORTS, DEFAULT_METRICS_PORT = (8000, 8001), 8002


def protocol_of(url: str) -> str:
    """Return the protocol of a URL, http or grpc, with or without TLS."""
    return SCHEMES[url.partition(":")[0]]


def is_secure(url: str) -> bool:
    """Return True if the URL's scheme means TLS."""
    return url.startswith(("https:", "grpcs:"))


def normal_url(text: str, protocol: str = "") -> str:
    """Read localhost:8000 or http://localhost:8000/ as http://localhost:8000, and nothing as the default.

    Where there is no scheme, `protocol` is it (http or grpc; empty: http). Raises OptionError.
    """
    if protocol:
        one_of("--protocol", protocol, DEFAULT_URLS)
    url = text.strip().rstrip("/") or DEFAULT_URLS[protocol or "http"]
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = protocol or "http", url
    if "@" in rest:
        raise OptionError("--url holds a user or a password, which would be shown", fix="send it with --headers FILE")
    if protocol and SCHEMES.get(scheme, protocol) != protocol:
        raise OptionError(
            f"--url {text!r} is not for --protocol {protocol}", fix=f"write it like --url {DEFAULT_URLS[protocol]}"
        )
    if scheme not in SCHEMES or not rest or "/" in rest or not _has_valid_port(rest):
        raise OptionError(
            f"--url {text!r} is not http://HOST:PORT or grpc://HOST:PORT, or https:// or grpcs://",
            fix=f"write it like --url {DEFAULT_URLS['http']}",
        )
    return f"{scheme}://{rest}"


def _has_valid_port(place: str) -> bool:
    """Return True if a port, or nothing, follows the host."""
    try:
        return urlsplit(f"//{place}").port != 0
    except ValueError:
        return False


def metrics_url(url: str, given: str) -> str | None:
    """Return the URL of a server's metrics: the given URL, port or host and port, else that of Triton's default ports.

    Raises OptionError.
    """
    if given.startswith("http://") and not urlsplit(given).username:
        return given
    parts = urlsplit(url)
    beside = f"{parts.hostname}:{DEFAULT_METRICS_PORT}"
    if not given:
        return f"http://{beside}/metrics" if parts.port in DEFAULT_PORTS else None
    place = given if ":" in given else f"{parts.hostname}:{given}"
    if not place.rpartition(":")[2].isdecimal():
        raise OptionError(f"--metrics-url {given!r} is not http://HOST:PORT/metrics", fix=f"http://{beside}/metrics")
    return f"http://{place}/metrics"
