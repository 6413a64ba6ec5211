"""TLS over a non-blocking socket: bytes are encrypted in memory, and the driver's own socket carries them.

An SSL object over memory waits for nothing, so the driver stays the only one that waits, also under Locust, which has
replaced the ssl module's sockets by gevent's.
"""

import contextlib
import socket
import ssl
from typing import Any

from loadgen.sut.channel import READ, WRITE, ConnectionFailed
from loadgen.sut.kernel_clock import KernelClock, Receive, Stamped, receiver_in_python
from loadgen.transport.tcp import Socket

HTTP, HTTP2 = "http/1.1", "h2"
"""The protocols that a client offers (ALPN, RFC 7301)."""

TLS_ERROR = "tls_error"
"""The kind of failure where TLS does not come about, or breaks."""

_AT_ONCE = 1 << 18
"""Most bytes encrypted before the operating system has taken them."""
_RECORD = 1 << 14
"""The longest record's content (RFC 8446, section 5.1)."""
_WHY = {
    "WRONG_VERSION_NUMBER": "the server does not speak TLS here",
    "HTTP_REQUEST": "the server does not speak TLS here",
    "TLSV1_ALERT_NO_APPLICATION_PROTOCOL": "the server does not offer the protocol (ALPN)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server asks for a certificate: --client-cert FILE",
}


class TlsSocket(Socket):
    """A socket whose bytes are encrypted; `server` is the name that the server's certificate must have."""

    __slots__ = ("_incoming", "_outgoing", "_protocol", "_stamp", "_taken", "_tls", "_unsent")

    def __init__(self, context: ssl.SSLContext, server: str, protocol: str, family: int, kind: int) -> None:
        super().__init__(family, kind)
        self._protocol = protocol
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server)
        self._unsent = memoryview(b"")
        self._taken = 0
        self._stamp = 0

    def handshake(self) -> int:
        """Go on with the handshake; what it waits for, 0 once it is done. Raises ConnectionFailed."""
        try:
            wants = self._shake()
        except ssl.SSLError as error:
            self._flush()  # the alert that tells the server why
            raise ConnectionFailed(TLS_ERROR, reason(error)) from error
        if not self._flush():
            wants |= READ | WRITE
        if not wants and self._protocol == HTTP2 and self._tls.selected_alpn_protocol() != HTTP2:
            raise ConnectionFailed(TLS_ERROR, "the server does not choose HTTP/2 (ALPN h2), which gRPC needs")
        return wants

    def _shake(self) -> int:
        """Hand the handshake all that has come."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
            else:
                return 0
            try:
                data = super().recv(_RECORD)
            except BlockingIOError:
                return READ
            if not data:
                raise ConnectionFailed(TLS_ERROR, "the server closed the connection in the TLS handshake")
            self._incoming.write(data)

    def send(self, data: Any, *_: Any) -> int:
        """Encrypt and send; says how much once all of it is out, and where not raises BlockingIOError.

        The same bytes must come again then, as OpenSSL has it: they are encrypted already.
        """
        if not self._taken:
            self._taken = self._tls.write(memoryview(data)[:_AT_ONCE])
        if not self._flush():
            raise BlockingIOError
        taken, self._taken = self._taken, 0
        return taken

    def sendmsg(self, buffers: Any, *_: Any) -> int:
        """Send the pieces as one: alone each would be a record."""
        return self.send(b"".join(buffers))

    def receiver(self, clock: KernelClock, channel: Stamped) -> Receive:
        """Return a function that receives with `take`: what comes is decrypted before anything is known of it."""
        return receiver_in_python(self.take, clock, channel)

    def take(self, most: int) -> tuple[bytes, int]:
        """All that has come, decrypted, with the stamp of its last ciphertext; b"" where the server has closed.

        Nothing stays behind in OpenSSL's memory, of which epoll would not know. Raises BlockingIOError,
        ConnectionFailed.
        """
        try:
            data, self._stamp = super().take(most)
        except BlockingIOError:
            if not self._incoming.pending:
                raise
        else:
            if not data:
                return b"", self._stamp
            self._incoming.write(data)
        pieces: list[bytes] = []
        goodbye = False
        try:
            # Asked for first: to read in vain costs more than to read, since OpenSSL's answer is an exception.
            while not goodbye and (self._incoming.pending or self._tls.pending()):
                pieces.append(self._tls.read(_RECORD))
                goodbye = not pieces[-1]
        except ssl.SSLWantReadError:
            pass  # a session ticket, or a part of a record
        except ssl.SSLError as error:
            raise ConnectionFailed(TLS_ERROR, reason(error)) from error
        if goodbye:
            # The server may wait for ours before it closes: epoll must say that it is over.
            with contextlib.suppress(OSError):
                self.shutdown(socket.SHUT_RD)
        elif not pieces:
            raise BlockingIOError
        return b"".join(pieces), self._stamp

    def _flush(self) -> bool:
        """Send what is encrypted; False where the operating system takes no more."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                self._unsent = self._unsent[super().send(self._unsent) :]
            except BlockingIOError:
                return False
        return True


def reason(error: OSError | ValueError) -> str:
    """Describe in words what is wrong with TLS, or with a file for it."""
    if not isinstance(error, ssl.SSLError):
        return getattr(error, "strerror", None) or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    name = error.reason or str(error)
    return _WHY.get(name, name.replace("_", " ").lower())
