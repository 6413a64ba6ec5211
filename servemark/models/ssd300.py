"""SSD300: object detection in one stage (AI Matrix).

Liu et al. 2016, "SSD: Single Shot MultiBox Detector" (ECCV), with a VGG16 trunk and PASCAL VOC's 21 labels, in
torchvision's form and under its parameter names: conv4_3 feeds a head after an L2 norm of learned scale, fc6 is
dilated. Pictures are stretched to 300 x 300. Candidates score 0.01 at least, 400 of each class go into suppression at
0.45, and the best 200 are answered, as AI Matrix has it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from servemark.models.blocks import detection
from servemark.models.blocks.weights import calibrate, drawn, seeded
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

if TYPE_CHECKING:
    from PIL import Image
    from torch import nn

SIDE = 300  # decides the six grids of default boxes
MEAN = np.array([123, 117, 104], np.float32)[:, None, None]  # torchvision's, the pixels from 0 to 255
RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
SCALES = (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)
STEPS = (8, 16, 32, 64, 100, 300)
CLASS_DEVIATION, BOX_DEVIATION = 2.0, 0.1
CALIBRATION_IMAGES = 4


@dataclass(frozen=True)
class Sizes:
    """Width of the first stage, classes with the background, answered detections and how many pictures have."""

    width: int = 64
    classes: int = 21
    detections: int = 200
    typical: int = 35


def network(sizes: Sizes) -> Module:
    """Define SSD: image [B, 3, 300, 300] -> boxes [B, D, 4], scores [B, D], labels [B, D], num_detections [B, 1].

    Boxes are pixels (x1, y1, x2, y2), best first; rows beyond the count are 0.
    """
    import torch
    from torch import nn

    width = sizes.width

    def convolutions(inputs: int, outputs: int, count: int) -> list[nn.Module]:
        channels = [inputs] + [outputs] * count
        layers = [(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True)) for a, b in pairwise(channels)]
        return [layer for pair in layers for layer in pair]

    class Extractor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                *convolutions(3, width, 2),
                nn.MaxPool2d(2),
                *convolutions(width, 2 * width, 2),
                nn.MaxPool2d(2),
                *convolutions(2 * width, 4 * width, 3),
                nn.MaxPool2d(2, ceil_mode=True),
                *convolutions(4 * width, 8 * width, 3),
            )
            fully_connected = nn.Sequential(
                nn.MaxPool2d(3, stride=1, padding=1),
                nn.Conv2d(8 * width, 16 * width, 3, padding=6, dilation=6),
                nn.ReLU(inplace=True),
                nn.Conv2d(16 * width, 16 * width, 1),
                nn.ReLU(inplace=True),
            )
            self.extra = nn.ModuleList(
                [
                    nn.Sequential(nn.MaxPool2d(2), *convolutions(8 * width, 8 * width, 3), fully_connected),
                    extra(16 * width, 4 * width, 8 * width, stride=2),
                    extra(8 * width, 2 * width, 4 * width, stride=2),
                    extra(4 * width, 2 * width, 4 * width, stride=1),
                    extra(4 * width, 2 * width, 4 * width, stride=1),
                ]
            )
            self.scale_weight = nn.Parameter(torch.full((8 * width,), 20.0))

        def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
            x = self.features(image)
            maps = [self.scale_weight.reshape(1, -1, 1, 1) * nn.functional.normalize(x)]
            for block in self.extra:
                x = block(x)
                maps.append(x)
            return {str(level): features for level, features in enumerate(maps)}

    channels = [8 * width, 16 * width, 8 * width, 4 * width, 4 * width, 4 * width]
    return single_shot(Extractor(), channels, sizes, Thresholds())


@dataclass(frozen=True)
class Thresholds:
    """Minimum score of a detection, maximum overlap of two of a class, and number of candidates of each class."""

    score: float = 0.01
    overlap: float = 0.45
    candidates: int = 400


def extra(inputs: int, middle: int, outputs: int, *, stride: int) -> "nn.Sequential":
    """Make one of the feature maps behind the trunk of the one before."""
    from torch import nn

    second = nn.Conv2d(middle, outputs, 3, stride, padding=stride - 1)
    return nn.Sequential(nn.Conv2d(inputs, middle, 1), nn.ReLU(inplace=True), second, nn.ReLU(inplace=True))


def single_shot(extractor: Module, channels: Sequence[int], sizes: Sizes, thresholds: Thresholds) -> Module:
    """Put SSD's heads and its choice of detections on six feature maps of these channels, 38 to 1 cells a side."""
    import torch
    from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
    from torchvision.models.detection.ssd import SSD, SSDHead

    candidates_of_class = thresholds.candidates

    class Detector(SSD):  # type: ignore[misc]  # torchvision has no types
        def __init__(self) -> None:
            generator = DefaultBoxGenerator([list(ratios) for ratios in RATIOS], scales=list(SCALES), steps=list(STEPS))
            super().__init__(
                extractor,
                generator,
                (SIDE, SIDE),
                sizes.classes,
                head=SSDHead(list(channels), generator.num_anchors_per_location(), sizes.classes),
                score_thresh=thresholds.score,
                nms_thresh=thresholds.overlap,
                detections_per_img=sizes.detections,
                topk_candidates=candidates_of_class,
            )
            boxes, _ = detection.fixed_anchors(generator, SIDE, (38, 19, 10, 5, 3, 1))
            self.register_buffer("default_boxes", boxes, persistent=False)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            answers = self.head(list(self.backbone(image).values()))
            boxes, scores, labels = self.detect(answers["cls_logits"], answers["bbox_regression"])
            counts = (scores > 0).sum(dim=1, keepdim=True, dtype=torch.int32)
            return boxes, scores, labels.int(), counts

        def detect(self, logits: torch.Tensor, deltas: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            """Choose the best of logits [B, 8732, C] and deltas [B, 8732, 4]: boxes, scores and labels."""
            default_boxes = self.default_boxes.expand(deltas.shape[0], -1, -1).flatten(0, 1)
            boxes = self.box_coder.decode_single(deltas.flatten(0, 1), default_boxes).clamp(0, SIDE)
            scores = logits.softmax(dim=-1)[:, :, 1:].transpose(1, 2)  # [B, C - 1, 8732]
            best, index = (scores * (scores > self.score_thresh)).topk(candidates_of_class, dim=2)
            index = index.flatten(1)[:, :, None].expand(-1, -1, 4)
            candidates = boxes.reshape(*deltas.shape).gather(1, index)  # [B, (C - 1) * 400, 4]
            found, places = detection.select(
                candidates.reshape(*best.shape, 4), best, self.nms_thresh, sizes.detections
            )
            picked = candidates.gather(1, places[:, :, None].expand(-1, -1, 4))
            is_real = found > 0
            return picked * is_real[:, :, None], found, (places // candidates_of_class + 1) * is_real

    return Detector()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network."""
    return seeded_detector(name, network, sizes, samples(np.random.default_rng(0)))


def seeded_detector(name: str, network: Callable[[Sizes], Module], sizes: Sizes, pictures: Iterator[Sample]) -> Module:
    """Seed a network and spread its heads' answers, so that pictures have objects, of most classes."""
    import torch
    from torch import nn

    (batch,) = drawn(pictures, CALIBRATION_IMAGES)
    with seeded(name), torch.no_grad():
        model: Any = network(sizes).eval()  # torchvision has no types
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    module.bias.data.zero_()
        calibrate(model.backbone, batch)
        features = list(model.backbone(batch).values())
        classifiers = model.head.classification_head.module_list
        regressors = model.head.regression_head.module_list
        for level, classifier, regressor in zip(features, classifiers, regressors, strict=True):
            detection.spread_classes(classifier, level, sizes.classes, CLASS_DEVIATION)
            detection.spread(regressor, detection.rows(regressor(level)), BOX_DEVIATION)
        answers = model.head(features)

        def count(background: float) -> float:
            logits = answers["cls_logits"].clone()
            logits[:, :, 0] *= background
            _, scores, _ = model.detect(logits, answers["bbox_regression"])
            return float((scores > 0).sum()) / len(batch)

        background = detection.find_background(count, sizes.typical)
        for classifier in classifiers:
            classifier.weight[:: sizes.classes] *= background
    built: Module = model
    return built


def preprocess(picture: "Image.Image") -> Sample:
    """Resize to 300 x 300 and subtract the mean colour."""
    return {"image": detection.stretch(picture, SIDE) - MEAN}


def samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Draw photographs, at the model's own size."""
    return detection.samples(rng, [(SIDE, SIDE)], [1.0], preprocess)


detector = partial(
    define,
    task="object detection",
    inputs=lambda _: (Tensor("image", "FP32", (3, SIDE, SIDE)),),
    outputs=lambda sizes: detection.outputs(sizes.detections),
    max_batch=32,
    slo=Slo(99, 50),
    citation="Liu et al. 2016, SSD: Single Shot MultiBox Detector, ECCV (arXiv:1512.02325)",
    locustfile="object_detection",
    build=build,
    samples=lambda _, rng: samples(rng),
)
"""Describes a detector in one stage on pictures of 300 x 300."""

FULL = Sizes()
TINY = Sizes(width=2, classes=5, detections=10, typical=6)

WORKLOAD = detector(
    "ssd300",
    "SSD300",
    suites=("AI Matrix",),
    origin="The authors' SSD300 for VOC with AI Matrix's thresholds. The mAP of 0.778 is the one that AI Matrix "
    "publishes; `ssd300_coco` has COCO's labels.",
    full=Variant(FULL, parameters=26_285_486, flops=62_747_075_584),
    tiny=Variant(TINY, parameters=60_576, flops=96_263_392),
    quality=Quality("mAP@0.5", 0.778, "PASCAL VOC 2007 test, 4,952 pictures"),
    **detection.of_voc(preprocess, lambda _size: (SIDE, SIDE)),
)
