"""Gzip (RFC 1952) of messages: of requests before the run, and of answers as they come."""

import zlib

from loadgen.sut.channel import ConnectionFailed
from loadgen.transport.limits import TooLarge

GZIP = "gzip"
LEVEL = 6
"""zlib's own choice between size and time, which gRPC has as well."""
_GZIP_WINDOW = 31
"""The largest window, and 16 for gzip's header and trailer (zlib's manual, deflateInit2)."""


def compress(data: bytes) -> bytes:
    """Return a gzip of some data, always the same: it holds no time."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def decompress(data: bytes, most: int) -> bytes:
    """Return what a gzip holds, `most` bytes at most: no more memory is taken. Raises ConnectionFailed."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise ConnectionFailed("malformed_response", f"an answer that is not gzip: {error}") from error
    if len(plain) > most:
        raise TooLarge(len(plain), most)
    if not unpacker.eof or unpacker.unused_data:
        raise ConnectionFailed("malformed_response", "a gzip that ends too early, or bytes after it")
    return plain
