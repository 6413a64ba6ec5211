"""The part of HTTP/2 (RFC 9113) that a gRPC client needs: frames, settings, and header blocks (HPACK, RFC 7541)."""

import struct
from collections.abc import Iterable, Mapping

from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple

from loadgen.sut.channel import ConnectionFailed
from loadgen.transport.limits import MAX_REMEMBERED_BYTES

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM = ACK = 0x01
END_HEADERS, PADDED, PRIORITY = 0x04, 0x08, 0x20

CANCEL = (8).to_bytes(4, "big")
"""RST_STREAM's code of a request that nobody waits for any more (RFC 9113, section 7)."""

HEAD_BYTES = 9
DEFAULT_WINDOW = 65535
DEFAULT_FRAME = 16384
MAX_WINDOW_SIZE = MAX_STREAM_ID = (1 << 31) - 1
RECEIVED_FRAME = 1 << 20
"""The longest frame that we take; fewer and longer frames cost less."""

_HEADER_TABLE_SIZE, _ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 4, 5
_REMEMBERED = 1024
"""Maximum number of distinct header blocks remembered; a server that varies them has each decoded."""

unpack_head = struct.Struct(">IBI").unpack_from
"""(length << 8 | kind, flags, stream) of the 9 bytes at an offset."""
_SETTING = struct.Struct(">HI")


class ProtocolViolation(ConnectionFailed):
    """Bytes that are not what a server may send."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed_response", message)


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """Lay out one frame."""
    return struct.pack(">IBI", len(body) << 8 | kind, flags, stream) + body


def window_update(stream: int, increment: int) -> bytes:
    """Allow the peer to send this number of further bytes; stream 0 is the whole connection."""
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def settings(values: Mapping[int, int]) -> bytes:
    """Lay out a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def read_settings(body: bytes) -> dict[int, int]:
    """Read a SETTINGS frame's body. Raises ProtocolViolation."""
    if len(body) % _SETTING.size:
        raise ProtocolViolation(f"a SETTINGS frame of {len(body)} bytes")
    found = dict(_SETTING.iter_unpack(body))
    if not DEFAULT_FRAME <= found.get(MAX_FRAME_SIZE, DEFAULT_FRAME) < 1 << 24:
        raise ProtocolViolation(f"a maximum frame size of {found[MAX_FRAME_SIZE]}")
    if found.get(INITIAL_WINDOW_SIZE, 0) > MAX_WINDOW_SIZE:
        raise ProtocolViolation(f"an initial window of {found[INITIAL_WINDOW_SIZE]}")
    return found


# No dynamic table for the server's header blocks: equal bytes mean equal fields, whatever came before. Windows as large
# as can be: the load generator takes all responses at once and never wants to slow the server down.
PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + settings(
        {_HEADER_TABLE_SIZE: 0, _ENABLE_PUSH: 0, INITIAL_WINDOW_SIZE: MAX_WINDOW_SIZE, MAX_FRAME_SIZE: RECEIVED_FRAME}
    )
    + window_update(0, MAX_WINDOW_SIZE - DEFAULT_WINDOW)
)
"""First bytes that a client sends."""


def encode_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """Encode a header block that neither needs nor changes the dynamic table: the same bytes for every request."""
    return bytes(Encoder().encode([NeverIndexedHeaderTuple(*field) for field in fields], huffman=False))


class FieldDecoder:
    """Decodes a server's header blocks; each distinct one once, for a server repeats itself."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, str]] = {}

    def decode(self, block: bytes) -> dict[str, str]:
        """The fields of a block. Raises ProtocolViolation."""
        known = self._known.get(block)
        if known is None:
            decoder = Decoder()
            decoder.header_table_size = decoder.max_allowed_table_size = 0
            try:
                known = {str(name): str(value) for name, value in decoder.decode(block)}
            except HPACKError as error:
                raise ProtocolViolation(f"a header block that cannot be decoded: {error}") from error
            if len(self._known) < _REMEMBERED and len(block) <= MAX_REMEMBERED_BYTES:
                self._known[block] = known
        return known
