"""Robot pushing: 59,000 pushes by robot arms, as TFRecord files (Finn, Goodfellow & Levine 2016, NIPS).

Layout: `push_{train,testseen,testnovel}/push_*.tfrecord*`. An Example holds, for each move t from 0,
`move/<t>/image/encoded` (JPEG, 640 x 512), `move/<t>/commanded_pose/vec_pitch_yaw` and
`move/<t>/endeffector/vec_pitch_yaw` (5 floats each).
"""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import Origin, image_folder, tfrecord
from servemark.errors import InputDataError

KEY = "push"
ORIGIN = Origin("sites.google.com/site/brainrobotdata/home/push-dataset", None, "CC BY 4.0")
POSE = 5  # x, y, z, pitch, yaw

Floats = npt.NDArray[np.float32]


def read(path: Path, *, frames: int, moves: int, side: int) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Read the start of each push: frames [frames, 3, side, side] in [0, 1], commanded poses [moves, 5], pose [5].

    Of a whole data set the pushes of seen objects are read, of any other folder all, or one file. Pictures are cropped
    to the central square and resized (bicubic) as by the authors. Raises InputDataError with file and record.
    """
    folder = path / "push_testseen" if (path / "push_testseen").is_dir() else path
    files = sorted(folder.rglob("*.tfrecord*")) if folder.is_dir() else [folder]
    if not files:
        raise InputDataError(f"{folder} holds no *.tfrecord*", fix=f"put push_testseen/ into DATA_ROOT/{KEY}/")
    for file in files:
        for push in tfrecord.read(file):
            pictures = [_picture(push, f"move/{t}/image/encoded", side) for t in range(frames)]
            actions = [push.floats(f"move/{t}/commanded_pose/vec_pitch_yaw", (POSE,)) for t in range(moves)]
            yield np.stack(pictures), np.stack(actions), push.floats("move/0/endeffector/vec_pitch_yaw", (POSE,))


def _picture(push: tfrecord.Example, name: str, side: int) -> Floats:
    from PIL import Image

    picture = image_folder.decode(io.BytesIO(push.content(name)), f"{push.place}: {name}")
    crop = min(picture.size)
    left, top = (picture.width - crop) // 2, (picture.height - crop) // 2
    box = (left, top, left + crop, top + crop)
    pixels = np.asarray(picture.resize((side, side), Image.Resampling.BICUBIC, box=box), np.float32)
    return pixels.transpose(2, 0, 1) / np.float32(255)
