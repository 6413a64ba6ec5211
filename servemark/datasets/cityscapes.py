"""Cityscapes label maps: each pixel has the colour of its class (Cordts et al. 2016, CVPR).

Read in the layout of CycleGAN's preparation (`testB/*.jpg`: labels) or the official one
(`gtFine/val/<city>/*_gtFine_color.png`).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import COPY, Origin, image_folder
from servemark.errors import InputDataError

KEY = "cityscapes"
ORIGIN = Origin("cityscapes-dataset.com, after registration", 241, "not commercial", size_from=COPY, terms_from=COPY)


def read_labels(folder: Path, side: int) -> Iterator[npt.NDArray[np.float32]]:
    """Read the label maps, resized (bicubic, as by CycleGAN's authors) to [3, side, side] in [0, 1].

    A folder of neither layout gives all its pictures. Raises InputDataError naming the file.
    """
    if (folder / "gtFine").is_dir():
        files = sorted((folder / "gtFine" / "val").rglob("*_gtFine_color.png"))
        if not files:
            raise InputDataError(f"{folder}/gtFine/val holds no *_gtFine_color.png", fix="unpack gtFine_trainvaltest")
    else:
        files = image_folder.paths(folder / "testB" if (folder / "testB").is_dir() else folder)
    return (_load(file, side) for file in files)


def _load(file: Path, side: int) -> npt.NDArray[np.float32]:
    from PIL import Image

    picture = image_folder.decode(file, file).resize((side, side), Image.Resampling.BICUBIC)
    return np.asarray(picture, np.float32).transpose(2, 0, 1) / np.float32(255)
