"""Access to a server: certificates, and header fields that are sent with every request.

A user gives fields by --headers or in the description of an endpoint: one rule for both. `Host` may be one of them,
because an ingress that is reached by its IP address tells services apart by it. It takes the place of the URL's:
exactly one is sent, over HTTP/2 as `:authority`.
"""

import functools
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from loadgen.transport.server_url import is_secure, protocol_of
from loadgen.transport.tcp import Address, resolve
from loadgen.transport.tls import HTTP, HTTP2, TlsSocket, reason
from servemark import files
from servemark.documents.server import Server
from servemark.errors import OptionError, ServerError
from servemark.results.schema.run import Tls

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
_SEPARATORS = re.compile(r"[\s;,=]+")
_SECRET_CHARS = 6
"""A shorter value is not a secret, and may be a part of any word."""
TIMEOUT_S = 5.0
_MAX_BYTES = 12_288
"""Names and values together: they go in one HTTP/2 frame of 16 KiB, and servers take little more."""


@dataclass(frozen=True)
class Access:
    """Credentials for a server. `headers` are secrets: they are sent, and shown nowhere."""

    ca: Path | None = None
    """Certificates to trust instead of the system's."""
    certificate: Path | None = None
    """Our own, for a server that asks for it; `key` where that is a file of its own."""
    key: Path | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    insecure: bool = False
    """The server's certificate is not verified."""

    @classmethod
    def of(cls, server: Server, url: str) -> "Access":
        """Read the files that a request names. Raises OptionError."""
        paths = {name: Path(text) if (text := getattr(server, name)) else None for name in _TLS_FLAGS}
        given = [flag for name, flag in _TLS_FLAGS.items() if paths[name]]
        if given and not is_secure(url):
            raise OptionError(f"{given[0]} is for a server over TLS, not {url}", fix="--url https://... or grpcs://...")
        if server.tls_insecure and (not is_secure(url) or paths["tls_ca"]):
            raise OptionError(
                "--tls-insecure verifies nothing: it is for a server over TLS, and excludes --tls-ca",
                fix="leave one of them out",
            )
        if paths["client_key"] and not paths["client_cert"]:
            raise OptionError("--client-key without its certificate", fix="--client-cert FILE")
        file = Path(server.headers) if server.headers else None
        headers = read_headers(file) if file else ()
        access = cls(paths["tls_ca"], paths["client_cert"], paths["client_key"], headers, server.tls_insecure)
        if is_secure(url):
            access.context(url)
        return access

    def tls(self, url: str) -> Tls | None:
        """Describe how a connection is secured, for a result; None without TLS."""
        if not is_secure(url):
            return None
        found: Tls = {"ca": str(self.ca or "system"), "client_certificate": bool(self.certificate)}
        return {**found, "unverified": True} if self.insecure else found

    def agreed(self, url: str, known: Tls) -> Tls:
        """Complete the description of TLS by the version and cipher that a connection agrees on. Raises ServerError."""
        parts, address = urlsplit(url), resolve(url)
        assert isinstance(address.sockaddr, tuple)  # no Unix socket has TLS
        host, port = address.sockaddr[:2]
        try:
            with (
                socket.create_connection((str(host), int(port)), TIMEOUT_S) as plain,
                self.context(url).wrap_socket(plain, server_hostname=parts.hostname) as connection,
            ):
                cipher = connection.cipher() or ("", "", 0)
                return {**known, "version": connection.version() or "", "cipher": cipher[0]}
        except OSError as error:
            raise ServerError(f"no TLS with {url}: {reason(error)}") from error

    def address(self, url: str) -> Address:
        """Resolve the server's address, with TLS if the URL asks for it. Raises ServerError, OptionError."""
        if not is_secure(url):
            return resolve(url)
        host = urlsplit(url).hostname or ""
        return resolve(url, functools.partial(TlsSocket, self.context(url), host, _alpn(url)))

    def context(self, url: str) -> ssl.SSLContext:
        """Make the context of TLS connections: certificates and host names are checked, unless that is switched off.

        Raises OptionError.
        """
        return _context(self, _alpn(url))

    def redact(self, text: str) -> str:
        """A server's words without the secrets that it may repeat."""
        for name, value in self.headers:
            if name == HOST:
                continue
            # Parts too: a server may leave "Bearer" out, or name one of several cookies.
            for secret in (value, *_SEPARATORS.split(value)[1:]):
                text = text.replace(secret, f"<{name}>") if len(secret) >= _SECRET_CHARS else text
        return text


NO_ACCESS = Access()
"""A server that asks for nothing, over plain TCP or with a certificate that the system trusts."""

_TLS_FLAGS = {"tls_ca": "--tls-ca", "client_cert": "--client-cert", "client_key": "--client-key"}


def read_headers(file: Path) -> tuple[tuple[str, str], ...]:
    """Read header fields, a `Name: value` on each line. Raises OptionError, which never shows a value."""
    fix = "write lines like Name: value"
    try:
        lines = files.text(file, files.TEXT_BYTES).splitlines()
    except OSError as error:
        raise OptionError(
            f"--headers {file}: {error.strerror}", fix="name a file with lines like Name: value"
        ) from error
    except files.NotTextError as error:
        raise OptionError(f"--headers {file}: {error}", fix=error.fix) from None
    headers: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, separator, value = line.partition(":")
        wrong = fault_of(name, value.strip()) if separator else "there is no colon after a name"
        if wrong is None and name.lower() in headers:
            wrong = f"{name.lower()} is there twice"
        if wrong:
            raise OptionError(f"--headers {file}, line {number}: {wrong}", fix=fix)
        headers[name.lower()] = value.strip()
    if sum(len(name) + len(value) for name, value in headers.items()) > _MAX_BYTES:
        raise OptionError(f"--headers {file} holds more than {_MAX_BYTES} bytes", fix="send fewer or shorter fields")
    return tuple(headers.items())


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


def _alpn(url: str) -> str:
    return HTTP2 if protocol_of(url) == "grpc" else HTTP


@functools.cache
def _context(access: Access, protocol: str) -> ssl.SSLContext:
    """Made once: reading the system's certificates takes milliseconds. Raises OptionError."""
    ca, certificate, key = access.ca, access.certificate, access.key
    try:
        for file in filter(None, (ca, certificate, key)):
            files.require_regular(file)
    except OSError as error:
        raise OptionError(f"{error.filename}: {error.strerror}", fix="name PEM files") from error
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise OptionError(f"--tls-ca {ca}: {reason(error)}", fix="name a PEM file with the CA's certificate") from error
    if access.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        try:
            # Without an answer OpenSSL would ask the terminal.
            context.load_cert_chain(certificate, key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise OptionError(
                f"--client-cert {certificate}: {reason(error)}",
                fix="name PEM files with the certificate and its key, which is not encrypted",
            ) from error
    context.set_alpn_protocols([protocol])
    # A second handshake on a connection would come between requests (TLS 1.2 only).
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
