"""3D face recognition from colour and depth: ResNet-50 with a fourth channel (AIBench DC-AI-C8).

The suite cites Vieriu et al. 2015, "Facial Expression Recognition under a Wide Range of Head Poses" (FG), and runs an
"RGB-D ResNet-50" over the 253 identities of the Intellifusion data: torchvision's ResNet-50 whose first convolution
takes red, green, blue and depth. Pictures come as they are, in [0, 1]; the depth in the unit of the data, here metres.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import rgbd_faces
from servemark.models.blocks import resnet
from servemark.models.blocks.classification import seeded_classifier
from servemark.models.synthesis.images import picture
from servemark.workload import Agreement, Quality, Sample, Slo, Tensor, Variant, define

FULL = resnet.Sizes(blocks=(3, 4, 6, 3), classes=253, channels=4)
TINY = resnet.Sizes(blocks=(1, 1, 1, 1), width=8, classes=10, channels=4, side=32)

NEAREST_M, FARTHEST_M, BACKGROUND_M = 0.5, 1.0, 1.5
DOME_M = 0.12  # how far a face stands out
ROUGHNESS_M = 0.005
BACKGROUND_SHARE, MISSING_SHARE = 0.3, 0.02


def samples(sizes: resnet.Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw a picture and a depth map [4, side, side]: a dome before a wall, rough, with missing pixels of depth 0."""
    while True:
        colour = picture(rng, sizes.side, sizes.side)
        yield {"rgbd": np.concatenate([colour, _depth(sizes.side, rng)[None]])}


def _depth(side: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    radius = (x / 0.35) ** 2 + (y / 0.45) ** 2
    depth = rng.uniform(NEAREST_M, FARTHEST_M) - DOME_M * np.exp(-radius)
    texture = picture(rng, side, side)[0]
    depth += ROUGHNESS_M * (texture - texture.mean()) / texture.std()
    depth[radius > np.quantile(radius, 1 - BACKGROUND_SHARE)] = BACKGROUND_M
    depth[rng.random((side, side)) < MISSING_SHARE] = 0
    narrowed: npt.NDArray[np.float32] = depth.astype(np.float32)
    return narrowed


def read(path: Path) -> Iterator[Sample]:
    """Preprocess the test split (servemark/datasets/rgbd_faces.py). Raises InputDataError with file and line."""
    for face in rgbd_faces.read(path):
        yield {"rgbd": face}


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
    locustfile="face_recognition_3d",
    build=lambda name, sizes: seeded_classifier(name, partial(resnet.network, sizes), partial(samples, sizes)),
    samples=samples,
    dataset="rgbd_faces",
    read=read,
    agreement=Agreement(atol=1e-3),
)
