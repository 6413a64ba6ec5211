"""A server's URL as the user writes it, and where its metrics are."""

import re
from urllib.parse import quote, urlsplit

from servemark.errors import OptionError
from servemark.quantities import one_of

DEFAULT_URLS = {"http": "http://127.0.0.1:8000", "grpc": "grpc://127.0.0.1:8001"}
SCHEMES = {
    "http": "http", "https": "http", "grpc": "grpc", "grpcs": "grpc", "http+unix": "http", "grpc+unix": "grpc",
}  # fmt: skip
"""Protocol of each URL scheme; the s means TLS, and unix the path of a socket."""
_UNIX = re.compile(r"(?:(http|grpc)\+)?unix:(?://)?(/[^/].*)")
_KSERVE = re.compile(r"/v2(/models/.*|/models|/health/.*)?$")
_IN_PATHS = "/%!$&'()*+,;=:@"
"""Characters of a path that stand as the user wrote them; others are percent-encoded."""
MAX_PATH_BYTES = 107
"""Longest path of a Unix socket that Linux takes (unix(7))."""

METRICS = "#metrics="
"""Comes in addresses between processes after a server's URL, before the place of its metrics."""
DEFAULT_PORTS, DEFAULT_METRICS_PORT = (8000, 8001), 8002


def protocol_of(url: str) -> str:
    """Return the protocol of a URL, http or grpc, with or without TLS."""
    return SCHEMES[url.partition(":")[0]]


def socket_path(url: str) -> str:
    """Return the path of the Unix socket that a URL names; empty where it names a host."""
    found = _UNIX.fullmatch(url)
    return found[2] if found else ""


def authority(url: str) -> str:
    """Return the host and port of a URL as requests name them; a Unix socket is localhost, as curl and gRPC have it."""
    return urlsplit(url).netloc or "localhost"


def path_of(url: str) -> str:
    """Return the path at which an ingress has a server, such as /serving/a; empty for a server's own root."""
    return "" if socket_path(url) else urlsplit(url).path


def port_flag(url: str) -> str:
    """Return the flag of `servemark serve` for this URL's port, after a blank; empty for the usual port."""
    flag, usual = ("--grpc-port", DEFAULT_PORTS[1]) if protocol_of(url) == "grpc" else ("--http-port", DEFAULT_PORTS[0])
    port = urlsplit(url).port
    return f" {flag} {port}" if port and port != usual else ""


def is_secure(url: str) -> bool:
    """Return True if the URL's scheme means TLS."""
    return url.startswith(("https:", "grpcs:"))


def normal_url(text: str, protocol: str = "") -> str:
    """Read localhost:8000 or http://localhost:8000/ as http://localhost:8000, and nothing as the default.

    Over HTTP the path of an ingress may follow, as in http://host/serving/a. Where there is no scheme, `protocol` is it
    (http or grpc; empty: http). Raises OptionError.
    """
    if protocol:
        one_of("--protocol", protocol, DEFAULT_URLS)
    url = text.strip().rstrip("/") or DEFAULT_URLS[protocol or "http"]
    if unix := _UNIX.fullmatch(url):
        return _unix_url(text, protocol, *unix.groups())
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = protocol or "http", url
    if "@" in rest:
        raise OptionError("--url holds a user or a password, which would be shown", fix="send it with --headers FILE")
    if protocol and SCHEMES.get(scheme, protocol) != protocol:
        raise OptionError(
            f"--url {text!r} is not for --protocol {protocol}", fix=f"write it like --url {DEFAULT_URLS[protocol]}"
        )
    place, slash, path = rest.partition("/")
    spoken = SCHEMES.get(scheme, "")
    if wrong := _wrong_path(spoken, rest, slash + path):
        raise OptionError(f"--url {text!r} {wrong}", fix=f"--url {scheme}://{_right_part(spoken, rest)}")
    if scheme not in SCHEMES or "+" in scheme or not _has_valid_port(place):
        raise OptionError(
            f"--url {text!r} is not http://HOST:PORT or grpc://HOST:PORT, https:// or grpcs://, or unix:/PATH",
            fix=f"write it like --url {DEFAULT_URLS['http']}",
        )
    return f"{scheme}://{place}{quote(slash + path, safe=_IN_PATHS)}"


def normal_urls(text: str, protocol: str = "") -> tuple[str, ...]:
    """Read the URLs of one server or, with commas between, of several. Raises OptionError."""
    parts = text.split(",")
    if len(parts) > 1 and not all(part.strip() for part in parts):
        raise OptionError(f"--url {text!r} names a server that is empty", fix="--url http://A:8000,http://B:8000")
    urls = tuple(normal_url(part, protocol) for part in parts)
    if len({url.partition(":")[0] for url in urls}) > 1 or len({*urls}) < len(urls):
        raise OptionError(
            f"--url {text!r} names a server twice, or servers of different protocols",
            fix="name each once, all with one of http://, https://, grpc://, grpcs://",
        )
    return urls


def _unix_url(text: str, protocol: str, own: str | None, path: str) -> str:
    """Return the URL of a Unix socket. Raises OptionError."""
    wrong = "#" in path or "\0" in path or len(path.encode()) > MAX_PATH_BYTES
    if wrong or (protocol and own and own != protocol):
        raise OptionError(
            f"--url {text!r} is not the path of a socket ({MAX_PATH_BYTES} bytes at most, no #) for --protocol "
            f"{protocol or own or 'http'}",
            fix="write it like --url unix:/run/server.sock",
        )
    return f"{protocol or own or 'http'}+unix:{path}"


def _wrong_path(protocol: str, rest: str, path: str) -> str:
    """Say what is wrong with what follows a host; "" if nothing is."""
    if "?" in rest or "#" in rest:
        return "has a query, which no request would carry"
    if path and protocol == "grpc":
        return "has a path, and a gRPC call has its own: an ingress tells gRPC servers apart by their host"
    if _KSERVE.search(path):
        return "has the path of KServe v2 itself, which is added to it"
    if any(part in {"", ".", ".."} for part in path.split("/")[1:]) or not path.isprintable():
        return "has a path with parts that lead elsewhere"
    return ""


def _right_part(protocol: str, rest: str) -> str:
    """Return the part of a URL after its scheme that can be kept: without a query, and without KServe's own path."""
    kept = _KSERVE.sub("", re.split("[?#]", rest)[0].rstrip("/"))
    place, slash, path = kept.partition("/")
    return place if _wrong_path(protocol, kept, slash + path) else kept


def _has_valid_port(place: str) -> bool:
    """Return True if a port, or nothing, follows the host."""
    try:
        parts = urlsplit(f"//{place}")
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def metrics_url(url: str, given: str) -> str | None:
    """Return the URL of a server's metrics: the given URL, port or host and port, else that of Triton's default ports.

    Raises OptionError.
    """
    parts = urlsplit(url)
    host = parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    beside = f"{host}:{DEFAULT_METRICS_PORT}"
    if not given:
        return f"http://{beside}/metrics" if parts.port in DEFAULT_PORTS else None
    whole = given.startswith("http://")
    place = re.split("[/?#]", given[len("http://") :])[0] if whole else given if ":" in given else f"{host}:{given}"
    if "@" in place or not _has_valid_port(place) or not (whole or place.rpartition(":")[2].isdecimal()):
        raise OptionError(f"--metrics-url {given!r} is not http://HOST:PORT/metrics", fix=f"http://{beside}/metrics")
    return given if whole else f"http://{place}/metrics"
