"""TFRecord files of tf.train.Example messages, read without TensorFlow.

A record is its length (uint64), the length's masked CRC-32C, the message, the message's masked CRC-32C, little-endian
(TensorFlow, "TFRecord and tf.train.Example"). The length's checksum is verified, which tells a TFRecord file from any
other; the message's is not, since in Python that takes longer than everything else.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from servemark.errors import InputDataError, reason
from servemark.protobuf import Messages

HEADER, FOOTER_BYTES = struct.Struct("<QI"), 4
CRC_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
FIX = "replace the file by one of the official data set"
_MESSAGES = Messages(
    "tensorflow",
    {
        "Example": "features Features 1",
        "Features": "feature Entry* 1",
        "Entry": "key string 1, value Feature 2",
        "Feature": "bytes_list List 1, float_list List 2",
        "List": "value bytes* 1",  # floats lie packed in one, little-endian
    },
)


class Example:
    """The features of one record by name; `place` names file and record in errors."""

    def __init__(self, place: str, message: bytes) -> None:
        """Unpack a message. Raises InputDataError."""
        self.place = place
        try:
            features = _MESSAGES.parse("Example", message).features.feature
        except DecodeError as error:
            raise InputDataError(f"{place} is not a tf.train.Example: {error}", fix=FIX) from error
        self._features: dict[str, Any] = {entry.key: entry.value for entry in features}

    def floats(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Read a float feature. Raises InputDataError where it is missing or has another number of values."""
        content = b"".join(self._feature(name).float_list.value)
        if len(content) != 4 * int(np.prod(shape)):
            raise InputDataError(f"{self.place}: {name} has {len(content) / 4:g} floats, not {list(shape)}", fix=FIX)
        return np.frombuffer(content, "<f4").reshape(shape).astype(np.float32)

    def content(self, name: str) -> bytes:
        """Read a feature of one bytes value. Raises InputDataError where it is missing or is none."""
        values: list[bytes] = [*self._feature(name).bytes_list.value]
        if len(values) != 1:
            raise InputDataError(f"{self.place}: {name} has {len(values)} bytes values, not 1", fix=FIX)
        return values[0]

    def _feature(self, name: str) -> Any:
        if name not in self._features:
            raise InputDataError(f"{self.place} has no feature {name!r}", fix=FIX)
        return self._features[name]


def read(path: Path) -> Iterator[Example]:
    """Read the records of one file. Raises InputDataError with file and number of the record, counted from 1."""
    try:
        with path.open("rb") as file:
            number = 0
            while header := file.read(HEADER.size):
                number += 1
                place = f"{path}, record {number}"
                yield Example(place, _message(header, file, place))
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {reason(error)}", fix=FIX) from error


def _message(header: bytes, file: BinaryIO, place: str) -> bytes:
    if len(header) == HEADER.size:
        length, checksum = HEADER.unpack(header)
        if checksum != masked_crc32c(header[:8]):
            raise InputDataError(
                f"{place}: the length's checksum is wrong; this is not a TFRecord, or a damaged one", fix=FIX
            )
        message = file.read(length + FOOTER_BYTES)
        if len(message) == length + FOOTER_BYTES:
            return message[:length]
    raise InputDataError(f"{place}: the file ends within it", fix=FIX)


def masked_crc32c(data: bytes) -> int:
    """Compute the checksum that TFRecord stores: CRC-32C, rotated and offset."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CRC_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
