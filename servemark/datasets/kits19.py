"""KiTS19: computed tomography of patients with a kidney's tumour, cut and joined as MLPerf's reference does it.

Heller et al. 2019, "The KiTS19 Challenge Data" (arXiv:1904.00445): `case_00000/imaging.nii.gz` and
`segmentation.nii.gz` (0 background, 1 kidney, 2 tumour). The reference (mlcommons/inference,
vision/medical_imaging/3d-unet-kits19) brings voxels to 1.6 x 1.2 x 1.2 mm, clips and scales what was measured, and
makes each side a multiple of 64. Windows of 128^3 that overlap by half go through the network. Its answers are added
up with the weights of a Gaussian, and the class with the greatest sum is the voxel's.
"""

import gzip
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.datasets import Origin
from servemark.errors import InputDataError, parsing
from servemark.output import note

KEY = "kits19"
ORIGIN = Origin("github.com/neheller/kits19, whose program fetches the scans", None, "CC BY-NC-SA 4.0")
SPACING = (1.6, 1.2, 1.2)
"""Millimetres from a voxel to the next."""
LOWEST, HIGHEST, MEAN, DEVIATION, PADDING = -79.0, 304.0, 101.0, 76.9, -2.2
SIDE, STRIDE = 128, 64
PATIENTS = (
    0, 3, 5, 6, 12, 24, 34, 41, 44, 49, 52, 56, 61, 65, 66, 70, 76, 78, 80, 84, 86, 87, 92, 111, 112, 125, 128, 138,
    157, 160, 161, 162, 169, 171, 176, 185, 187, 189, 198, 203, 206, 207,
)  # fmt: skip
"""Those that the reference infers (meta/inference_cases.json); all others were for training."""
FIX = (
    "get the scans with `python -m starter_code.get_imaging` of kits19, and lay case_00000 and the others out in "
    f"DATA_ROOT/{KEY}/"
)
Volume = npt.NDArray[np.float32]
Labels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Scan:
    """A patient's volume [D, H, W], scaled for the network, and the class of each voxel [D, H, W]."""

    volume: Volume
    labels: Labels


def patients(folder: Path) -> list[Path]:
    """Return the folders of those of the reference's patients that are there. Raises InputDataError without any."""
    cases = [folder / f"case_{number:05}" for number in PATIENTS]
    found = [case for case in cases if case.is_dir()]
    if not found:
        raise InputDataError(
            f"{folder} has none of the {len(cases)} patients {cases[0].name} to {cases[-1].name}", fix=FIX
        )
    if len(found) < len(cases):
        note(f"{folder} has {len(found)} of the reference's {len(cases)} patients")
    return found


def shape(case: Path) -> tuple[int, int, int]:
    """Compute the sides of a patient's volume from the header of the scan. Raises InputDataError."""
    scan = _open(case / "imaging.nii.gz")
    depth, height, width = map(_cut, _resampled(scan))
    return depth, height, width


def read(case: Path) -> Scan:
    """Read a patient's scan and labels. Raises InputDataError naming the file."""
    from scipy import ndimage

    image, labels = _open(case / "imaging.nii.gz"), _open(case / "segmentation.nii.gz")
    if image.shape != labels.shape:
        raise InputDataError(f"{case}: the scan is {image.shape}, its segmentation {labels.shape}", fix=FIX)
    factors = _factors(image)
    volume, classes = map(_content, (image, labels))
    if factors != (1, 1, 1):
        # as the reference does it: linear for what was measured, the nearest for classes
        volume = ndimage.zoom(volume, factors, order=1, mode="constant", cval=volume.min())
        classes = ndimage.zoom(classes, factors, order=0, mode="constant", cval=classes.min())
    volume = ((np.clip(volume, LOWEST, HIGHEST) - MEAN) / DEVIATION).astype(np.float32)
    return Scan(_fitted(volume, PADDING), _fitted(classes.astype(np.uint8), 0))


def starts(sides: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the first voxel of each window of a volume, in the reference's order."""
    return list(product(*(range(0, side - SIDE + 1, STRIDE) for side in sides)))


def windows(volume: Volume) -> Iterator[Volume]:
    """Yield the windows [128, 128, 128] of a volume."""
    return (volume[_window(start)] for start in starts(volume.shape))


def joined(answers: Sequence[npt.NDArray[Any]], sides: Sequence[int]) -> Labels:
    """Join the answers to a volume's windows, each [classes, 128, 128, 128], to the class of each voxel [D, H, W]."""
    places = starts(sides)
    if len(answers) != len(places):
        raise ValueError(f"{len(answers)} windows were answered, a volume of {tuple(sides)} has {len(places)}")
    steps = (np.arange(SIDE) - (SIDE - 1) / 2) / (SIDE / 8)
    edge = np.exp(-(steps**2) / 6)  # the cube root of a Gaussian
    weights = np.einsum("i,j,k->ijk", edge, edge, edge).astype(np.float32)
    sums = np.zeros((len(answers[0]), *sides), np.float32)
    for answer, start in zip(answers, places, strict=True):
        sums[(slice(None), *_window(start))] += answer * weights
    # the reference divides by the sum of the weights, which is one for all classes of a voxel
    classes: Labels = sums.argmax(axis=0).astype(np.uint8)
    return classes


def _window(start: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(first, first + SIDE) for first in start)


def _open(path: Path) -> Any:
    try:
        import nibabel
    except ImportError as error:
        raise InputDataError(
            f"{path}: reading NIfTI needs the package nibabel", fix="pip install 'servemark[medical]'"
        ) from error
    if not path.exists():
        raise InputDataError(f"{path} is not there", fix=FIX)
    with parsing(path, InputDataError, fix=FIX):
        scan: Any = nibabel.load(path)
    if len(scan.shape) != 3 or not all(scan.shape) or not all(0 < step < math.inf for step in scan.header.get_zooms()):
        raise InputDataError(f"{path} is {scan.shape}, {scan.header.get_zooms()} mm, not a volume", fix=FIX)
    if 0 in _resampled(scan):
        steps = " x ".join(f"{wanted:g}" for wanted in SPACING)
        raise InputDataError(
            f"{path}: {scan.shape} voxels of {scan.header.get_zooms()} mm are less than one of {steps} mm", fix=FIX
        )
    return scan


def _content(scan: Any) -> Volume:
    """Read the values of a scan from its whole file, because the checksum stands at its end."""
    path = Path(scan.get_filename())
    with parsing(path, InputDataError, fix=FIX):
        content: Volume = type(scan).from_bytes(gzip.decompress(path.read_bytes())).get_fdata(dtype=np.float32)
    return content


def _factors(scan: Any) -> tuple[float, ...]:
    return tuple(float(step) / wanted for step, wanted in zip(scan.header.get_zooms(), SPACING, strict=True))


def _resampled(scan: Any) -> list[int]:
    """Return the sides of a scan in voxels of the reference's size, as SciPy rounds them."""
    return [round(size * factor) for size, factor in zip(scan.shape, _factors(scan), strict=True)]


def _cut(size: int) -> int:
    """Return the side after cutting or padding it: at least 128, and a multiple of 64, the nearest one."""
    size = max(size, SIDE)
    return size - size % STRIDE + (STRIDE if size % STRIDE >= STRIDE // 2 else 0)


def _fitted(volume: npt.NDArray[Any], padding: float) -> npt.NDArray[Any]:
    """Repeat the edges up to 128 voxels, then cut or pad both ends alike to a multiple of 64."""
    volume = np.pad(volume, [_halves(max(SIDE - size, 0)) for size in volume.shape], "edge")
    more = [_cut(size) - size for size in volume.shape]
    cut = tuple(
        slice(first, size - last)
        for size, (first, last) in zip(volume.shape, map(_halves, [max(-each, 0) for each in more]), strict=True)
    )
    return np.pad(volume[cut], [_halves(max(each, 0)) for each in more], constant_values=padding)


def _halves(size: int) -> tuple[int, int]:
    return size // 2, size - size // 2
