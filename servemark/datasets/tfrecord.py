"""TFRecord files of tf.train.Example messages, read without TensorFlow.

A record is its length (uint64), the length's masked CRC-32C, the message, the message's masked CRC-32C, little-endian
(TensorFlow, "TFRecord and tf.train.Example"). The length's checksum is verified, which tells a TFRecord file from any
other; the message's is not, since in Python that takes longer than everything else.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from servemark.errors import InputDataError

HEADER, FOOTER_BYTES = struct.Struct("<QI"), 4
CRC_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
LENGTH_DELIMITED = 2  # the wire type of every field on the way to a feature's values
BYTES_LIST, FLOAT_LIST = 1, 2  # fields of tf.train.Feature
FIX = "replace the file by one of the official data set"


class Example:
    """The features of one record by name; `place` names file and record in errors."""

    def __init__(self, place: str, features: Mapping[str, memoryview]) -> None:
        self.place = place
        self._features = features

    def floats(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """Read a float feature. Raises InputDataError where it is missing or has another number of values."""
        content = b"".join(self._values(name, FLOAT_LIST))
        if len(content) != 4 * int(np.prod(shape)):
            raise InputDataError(f"{self.place}: {name} has {len(content) / 4:g} floats, not {list(shape)}", fix=FIX)
        return np.frombuffer(content, "<f4").reshape(shape).astype(np.float32)

    def content(self, name: str) -> bytes:
        """Read a feature of one bytes value. Raises InputDataError where it is missing or is none."""
        values = list(self._values(name, BYTES_LIST))
        if len(values) != 1:
            raise InputDataError(f"{self.place}: {name} has {len(values)} bytes values, not 1", fix=FIX)
        return bytes(values[0])

    def _values(self, name: str, kind: int) -> Iterator[memoryview]:
        if name not in self._features:
            raise InputDataError(f"{self.place} has no feature {name!r}", fix=FIX)
        try:
            for field, values in _fields(self._features[name]):
                if field == kind:
                    yield from (value for _, value in _fields(values))
        except (ValueError, IndexError) as error:
            raise InputDataError(f"{self.place}: {name} is damaged: {error}", fix=FIX) from error


def read(path: Path) -> Iterator[Example]:
    """Read the records of one file. Raises InputDataError with file and number of the record, counted from 1."""
    try:
        with path.open("rb") as file:
            number = 0
            while header := file.read(HEADER.size):
                number += 1
                place = f"{path}, record {number}"
                yield Example(place, _features(_message(header, file, place), place))
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error}", fix=FIX) from error


def _message(header: bytes, file: BinaryIO, place: str) -> memoryview:
    if len(header) == HEADER.size:
        length, checksum = HEADER.unpack(header)
        if checksum != masked_crc32c(header[:8]):
            raise InputDataError(
                f"{place}: the length's checksum is wrong; this is not a TFRecord, or a damaged one", fix=FIX
            )
        message = file.read(length + FOOTER_BYTES)
        if len(message) == length + FOOTER_BYTES:
            return memoryview(message)[:length]
    raise InputDataError(f"{place}: the file ends within it", fix=FIX)


def _features(message: memoryview, place: str) -> dict[str, memoryview]:
    """Unpack Example {features = 1} -> Features {map feature = 1} -> entries {key = 1, value = 2}."""
    found = {}
    try:
        for _, features in _fields(message):
            for _, entry in _fields(features):
                pair = dict(_fields(entry))
                found[bytes(pair[1]).decode()] = pair[2]
    except (ValueError, IndexError, KeyError) as error:
        raise InputDataError(f"{place} is not a tf.train.Example: {error!r}", fix=FIX) from error
    return found


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Split a message into its fields: (number, content). Raises ValueError or IndexError for what is none."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 != LENGTH_DELIMITED:
            raise ValueError(f"field {key >> 3} has wire type {key & 7}")
        size, at = _varint(message, at)
        if at + size > len(message):
            raise ValueError(f"field {key >> 3} ends beyond its message")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def masked_crc32c(data: bytes) -> int:
    """Compute the checksum that TFRecord stores: CRC-32C, rotated and offset."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CRC_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
