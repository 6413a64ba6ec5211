"""Limits on the memory that a server can make the generator hold; docs/explanation/architecture.md lists all.

Gzip (RFC 1952) is here because an answer is unpacked within its limit. Requests are packed before the run.
"""

import zlib
from collections.abc import Iterable

from loadgen.sut.channel import ConnectionFailed
from servemark.workload import Tensor

MAX_HEAD_BYTES = 64 << 10
"""Of an HTTP/1 head, an HTTP/2 header block, and any HTTP/2 frame but DATA."""
MAX_REMEMBERED_BYTES = 4 << 10
"""A head or a header that is longer is read anew each time."""
MAX_REMEMBERED = 1024
"""Distinct heads, headers, forms and lengths of good answers that are remembered; others are read each time."""
MAX_UNSENT_FRAMES = 1 << 14
"""Frames that wait for a server which does not read: its pings are answered with 17 bytes each."""
MAX_BYTES_PER_VALUE_BYTE = 16
"""JSON spells a value of 2 bytes with 22 characters, and one of 1 byte with 6."""
MAX_VARIABLE_SIZE = 4096
"""Size assumed for an axis of variable size, and bytes assumed for an element of BYTES."""
GZIP = "gzip"
_LEVEL = 6
"""zlib's own choice between size and time, which gRPC has as well."""
_GZIP_WINDOW = 31
"""The largest window, and 16 for gzip's header and trailer (zlib's manual, deflateInit2)."""


class TooLarge(ConnectionFailed):
    """A message that is longer than its limit: nothing more of it is read."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__("too_large", f"an answer of {size} bytes or more, the limit is {limit}")


class MalformedResponse(ConnectionFailed):
    """Bytes that are not what a server may send."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed_response", message)


def max_message_bytes(outputs: Iterable[Tensor], batch_size: int) -> int:
    """The longest answer that is taken: 16 times the bytes of the outputs, and 1 MiB."""
    total = 0
    for tensor in outputs:
        size = max(batch_size, 1) * (MAX_VARIABLE_SIZE if tensor.datatype == "BYTES" else tensor.itemsize)
        for axis in tensor.shape:
            size *= MAX_VARIABLE_SIZE if axis == -1 else axis
        total += size
    return MAX_BYTES_PER_VALUE_BYTE * total + (1 << 20)


def compress(data: bytes) -> bytes:
    """Return a gzip of some data, always the same: it holds no time."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def decompress(data: bytes, most: int) -> bytes:
    """Return what a gzip holds, `most` bytes at most: no more memory is taken. Raises MalformedResponse, TooLarge."""
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise MalformedResponse(f"an answer that is not gzip: {error}") from error
    if len(plain) > most:
        raise TooLarge(len(plain), most)
    if not unpacker.eof or unpacker.unused_data:
        raise MalformedResponse("a gzip that ends too early, or bytes after it")
    return plain
