"""ShapeNet renderings for Perspective Transformer Nets: 24 views of an object around it, in TFRecord files.

Yan et al. 2016 (NIPS); TensorFlow's research/ptn writes `<synset>_{train,val,test}.tfrecords` (chairs: 03001627). An
Example holds the float features `image` [24, 64, 64, 3] and `mask` [24, 64, 64, 1] in [0, 1], `vox` [32, 32, 32, 1].
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import MAKER, Origin, tfrecord
from servemark.errors import InputDataError

KEY = "shapenet_ptn"
ORIGIN = Origin("github.com/tensorflow/models, research/ptn", None, "not commercial (ShapeNet)", terms_from=MAKER)
VIEWS, SIDE, VOXELS = 24, 64, 32


def read(path: Path) -> Iterator[npt.NDArray[np.float32]]:
    """Read the views of each object, as `labelled`."""
    return (view for view, _ in labelled(path, volumes=False))


def labelled(
    path: Path, *, volumes: bool = True
) -> Iterator[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]]:
    """Read the views [3, 64, 64] in [0, 1] of each object, with its volume [32, 32, 32].

    They are the test files of a folder, else all it holds, or one file. Raises InputDataError with file and record.
    """
    files = sorted(path.rglob("*_test.tfrecords")) or sorted(path.rglob("*.tfrecords")) if path.is_dir() else [path]
    if not files:
        raise InputDataError(f"{path} holds no *.tfrecords", fix=f"put 03001627_test.tfrecords into DATA_ROOT/{KEY}/")
    for file in files:
        for example in tfrecord.read(file):
            volume = example.floats("vox", (VOXELS, VOXELS, VOXELS)) if volumes else None
            for view in example.floats("image", (VIEWS, SIDE, SIDE, 3)).transpose(0, 3, 1, 2):
                yield view, volume
