"""3D face recognition from colour and depth: ResNet-50 with a fourth channel (AIBench DC-AI-C8).

The suite cites Vieriu et al. 2015, "Facial Expression Recognition under a Wide Range of Head Poses" (FG), and runs an
"RGB-D ResNet-50" over the 253 identities of the Intellifusion data: torchvision's ResNet-50 whose first convolution
takes red, green, blue and depth. AIBench's loader joins the picture's bytes with the depth map and scales neither:
colours come in 0 to 255. The one depth map that its repository shows (135 x 118) has 78 % of zeros. The rest is some 40
to 56, in a unit that is not documented. Its faces are aligned beforehand, which is left to the client.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import rgbd_faces
from servemark.models.blocks import resnet
from servemark.models.blocks.classification import seeded_classifier
from servemark.models.synthesis.images import picture
from servemark.workload import Example, LabelledSet, Quality, Sample, Slo, Tensor, Variant, define

FULL = resnet.Sizes(blocks=(3, 4, 6, 3), classes=253, channels=4)
TINY = resnet.Sizes(blocks=(1, 1, 1, 1), width=8, classes=10, channels=4, side=32)

FARTHEST = (52.0, 56.0)
"""Range of a face's rim, in the depth map's own unit."""
DOME = 10.0  # how far a face stands out
ROUGHNESS = 0.2
MISSING_SHARE = 0.78
"""Of the pixels have no depth: all that is not the face."""


def samples(sizes: resnet.Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw a picture and a depth map [4, side, side]: a rough dome, and no depth (0) around it."""
    while True:
        colour = 255 * picture(rng, sizes.side, sizes.side)
        yield {"rgbd": np.concatenate([colour, _depth(sizes.side, rng)[None]])}


def _depth(side: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    (dx, dy), aspect = rng.uniform(-0.3, 0.3, 2), rng.uniform(0.7, 1.0)
    radius = ((x - dx) / aspect) ** 2 + (y - dy) ** 2
    edge = np.quantile(radius, 1 - MISSING_SHARE)
    depth = rng.uniform(*FARTHEST) - DOME * np.exp(-2 * radius / edge)
    texture = picture(rng, side, side)[0]
    depth += ROUGHNESS * (texture - texture.mean()) / texture.std()
    depth[radius > edge] = 0
    narrowed: npt.NDArray[np.float32] = depth.astype(np.float32)
    return narrowed


def read(path: Path) -> Iterator[Sample]:
    """Preprocess the test split (servemark/datasets/rgbd_faces.py). Raises InputDataError with file and line."""
    for face in rgbd_faces.read(path):
        yield {"rgbd": face}


def labelled(path: Path) -> LabelledSet:
    """The same with the numbers of their identities. Raises InputDataError with file and line."""
    return LabelledSet.of(
        rgbd_faces.labelled(path),
        lambda row, place, identity: Example(({"rgbd": rgbd_faces.face(path, row, place)},), identity),
    )


WORKLOAD = define(
    "face3d",
    "RGB-D ResNet-50",
    full=Variant(FULL, parameters=24_029_565, flops=8_253_984_768),
    tiny=Variant(TINY, parameters=131_354, flops=1_668_096),
    task="3D face recognition",
    suites=("AIBench DC-AI-C8",),
    inputs=lambda sizes: (Tensor("rgbd", "FP32", (sizes.channels, sizes.side, sizes.side)),),
    outputs=lambda sizes: (Tensor("logits", "FP32", (sizes.classes,)),),
    max_batch=64,
    slo=Slo(99, 15),
    quality=Quality("accuracy", 0.9464, "Intellifusion RGB-D faces, 253 identities, test split"),
    citation="Vieriu et al. 2015, FG; " + resnet.CITATION,
    origin="torchvision's ResNet-50 with four channels, which AIBench's code runs. 94.64 % is its target, of data "
    "that are not public.",
    locustfile="face_recognition_3d",
    build=lambda name, sizes: seeded_classifier(name, resnet.network, sizes, samples),
    samples=samples,
    dataset="rgbd_faces",
    read=read,
    labelled=labelled,
)
