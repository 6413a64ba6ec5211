"""CIFAR-10: 10,000 test pictures of 32 x 32 pixels in ten classes, in the binary version.

Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images". Files of `cifar-10-binary.tar.gz`, unpacked:
`cifar-10-batches-bin/test_batch.bin`, or that file in the folder itself. A record is one byte of class, then 1,024
bytes each of red, green and blue.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import CATALOGUE, COPY, Origin
from servemark.errors import InputDataError

KEY = "cifar10"
ORIGIN = Origin(
    "cs.toronto.edu/~kriz/cifar.html (binary)", 170, "cite the report", size_from=CATALOGUE, terms_from=COPY
)
SIDE, CLASSES = 32, 10
FOLDER, FILE = "cifar-10-batches-bin", "test_batch.bin"
RECORD = 1 + 3 * SIDE**2
FIX = "unpack cifar-10-binary.tar.gz, the binary version, into DATA_ROOT/cifar10"


@dataclass(frozen=True)
class Pictures:
    """`images` UINT8 [N, 3, 32, 32] and `labels` UINT8 [N]."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.uint8]


def read(folder: Path) -> Pictures:
    """Read the test pictures. Raises InputDataError naming the file, and the record, for any other layout."""
    path = folder / FOLDER / FILE if (folder / FOLDER).is_dir() else folder / FILE
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error.strerror}", fix=FIX) from error
    if not len(content) or len(content) % RECORD:
        raise InputDataError(f"{path} has {len(content):,} bytes, which are not records of {RECORD:,}", fix=FIX)
    records = content.reshape(-1, RECORD)
    wrong = np.flatnonzero(records[:, 0] >= CLASSES)
    if len(wrong):
        raise InputDataError(f"{path}: record {wrong[0]} has class {records[wrong[0], 0]}, not 0 to 9", fix=FIX)
    return Pictures(records[:, 1:].reshape(-1, 3, SIDE, SIDE), records[:, 0])
