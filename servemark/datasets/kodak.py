"""The Kodak images (`kodim01.png` to `kodim24.png`, 768 x 512), or any folder of pictures, whole, as tiles."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import COPY, Origin, image_folder
from servemark.errors import InputDataError

KEY = "kodak"
ORIGIN = Origin("r0k.us/graphics/kodak", 15, "released for unrestricted use", terms_from=COPY)


def read_tiles(folder: Path, side: int) -> Iterator[npt.NDArray[np.float32]]:
    """Cut each picture into tiles [3, side, side] in [0, 1], row by row; what is left over at the edges is dropped.

    Raises InputDataError naming the file, also for a picture smaller than one tile.
    """
    for file in image_folder.paths(folder):
        pixels = np.asarray(image_folder.decode(file, file), np.float32).transpose(2, 0, 1) / np.float32(255)
        height, width = pixels.shape[1:]
        if min(height, width) < side:
            raise InputDataError(
                f"{file} is {width} x {height}, smaller than {side} x {side}", fix="remove it, or use larger pictures"
            )
        for top in range(0, height - side + 1, side):
            for left in range(0, width - side + 1, side):
                yield pixels[:, top : top + side, left : left + side]
