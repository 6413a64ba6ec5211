"""RetinaNet: object detection in one stage, on a ResNeXt-50 (MLPerf Inference).

Lin et al. 2017, "Focal Loss for Dense Object Detection" (ICCV), in torchvision's form and under its parameter names, as
MLPerf's reference has it: a ResNeXt-50 32x4d of frozen batch statistics, a feature pyramid of five levels, and the 264
classes of OpenImages that MLPerf chose. Pictures are stretched to 800 x 800. Of each level the best 1,000 pairs of a
box and a class that score 0.05 at least go into suppression at 0.5 within each class, and the best 300 are answered.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from servemark.datasets import openimages
from servemark.models.blocks import detection, resnet
from servemark.models.blocks.rcnn import freeze
from servemark.models.blocks.weights import calibrate, drawn, seeded
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

if TYPE_CHECKING:
    import torch

STAGES = (1, 2, 3)
"""Of the trunk's four, those that the pyramid is built on."""
STRIDES = (8, 16, 32, 64, 128)
CLASS_DEVIATION, BOX_DEVIATION = 2.0, 0.1


@dataclass(frozen=True)
class Sizes:
    """Trunk, side of a picture, width of the pyramid, classes, and numbers of candidates and detections."""

    trunk: resnet.Sizes
    side: int = 800
    pyramid: int = 256
    classes: int = 264
    candidates: int = 1000
    """Pairs of a box and a class of each level before suppression."""
    detections: int = 300
    typical: int = 35
    """Number of detections that the seeded weights give on the mean picture."""
    calibration: int = 2


def network(sizes: Sizes) -> Module:
    """Define it: image [B, 3, side, side] -> boxes [B, D, 4], scores [B, D], labels [B, D], num_detections [B, 1].

    Boxes are pixels (x1, y1, x2, y2), best first; rows beyond the count are 0.
    """
    import torch
    from torchvision.models.detection import RetinaNet
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    extra = LastLevelP6P7(sizes.pyramid, sizes.pyramid)
    backbone = detection.pyramid(sizes.trunk, STAGES, sizes.pyramid, extra)

    class Detector(RetinaNet):  # type: ignore[misc]  # torchvision has no types
        def __init__(self) -> None:
            super().__init__(backbone, sizes.classes, detections_per_img=sizes.detections)
            sides = [-(-sizes.side // stride) for stride in STRIDES]
            anchors, self.boxes_of_levels = detection.fixed_anchors(self.anchor_generator, sizes.side, sides)
            self.register_buffer("anchors", anchors, persistent=False)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            answers = self.head(list(self.backbone(image).values()))
            boxes, scores, labels = self.detect(*self.candidates(answers["cls_logits"]), answers["bbox_regression"])
            return boxes, scores, labels.int(), (scores > 0).sum(dim=1, keepdim=True, dtype=torch.int32)

        def candidates(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """Find the best pairs of a box and a class on each level: their logits [B, K] and places in [A * C]."""
            best, places, first = [], [], 0
            for level in torch.split(logits, self.boxes_of_levels, dim=1):
                pairs = level.flatten(1)
                found = pairs.topk(min(sizes.candidates, pairs.shape[1]), dim=1)
                best.append(found.values)
                places.append(found.indices + first)
                first += pairs.shape[1]
            return torch.cat(best, dim=1), torch.cat(places, dim=1)

        def detect(
            self, best: torch.Tensor, places: torch.Tensor, deltas: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            """Choose the best of the candidates, given deltas [B, A, 4]: boxes, scores and labels."""
            scores, boxes_of = best.sigmoid(), places // sizes.classes
            labels = places - boxes_of * sizes.classes
            index = boxes_of[:, :, None].expand(-1, -1, 4)
            anchors = self.anchors[boxes_of.flatten()]
            boxes = self.box_coder.decode_single(deltas.gather(1, index).flatten(0, 1), anchors)
            boxes = boxes.clamp(0, sizes.side).reshape(*places.shape, 4)
            found, picks = detection.select(
                boxes[:, None],
                (scores * (scores > self.score_thresh))[:, None],
                self.nms_thresh,
                sizes.detections,
                labels=labels,
            )
            is_real = found > 0
            picked = boxes.gather(1, picks[:, :, None].expand(-1, -1, 4))
            return picked * is_real[:, :, None], found, labels.gather(1, picks) * is_real

    return Detector()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the detector and spread its heads' answers, so that pictures have objects, of many classes."""
    import torch
    from torch import nn

    (batch,) = drawn(samples(sizes, np.random.default_rng(0)), sizes.calibration)
    with seeded(name), torch.no_grad():
        model: Any = network(sizes).eval()  # torchvision has no types
        trunk = model.backbone.body
        for part in (trunk, model.head):
            for module in part.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        calibrate(trunk, batch)
        levels = list(model.backbone(batch).values())
        classifier, regressor = model.head.classification_head, model.head.regression_head
        _spread(classifier.cls_logits, [classifier.conv(level) for level in levels], CLASS_DEVIATION)
        _spread(regressor.bbox_reg, [regressor.conv(level) for level in levels], BOX_DEVIATION)
        answers = model.head(levels)
        best, places = model.candidates(answers["cls_logits"])

        def count(less: float) -> float:
            _, scores, _ = model.detect(best - less, places, answers["bbox_regression"])
            return float((scores > 0).sum()) / len(batch)

        classifier.cls_logits.bias -= detection.find_background(count, sizes.typical)
        freeze(model)
    built: Module = model
    return built


def _spread(layer: Any, inputs: "list[torch.Tensor]", deviation: float) -> None:
    """Give a head's answers over all levels a mean of 0 for each channel, and this deviation."""
    import torch

    layer.bias.zero_()
    detection.spread(layer, torch.cat([detection.rows(layer(level)) for level in inputs]), deviation)


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw photographs, at the model's own size."""
    return detection.samples(rng, [(sizes.side, sizes.side)], [1.0], partial(detection.stretched, side=sizes.side))


FULL = Sizes(trunk=resnet.Sizes(blocks=(3, 4, 6, 3), groups=32, group_width=4))
TINY = Sizes(
    trunk=resnet.Sizes(blocks=(1, 1, 1, 1), width=8, groups=2),
    side=128,
    pyramid=24,
    classes=5,
    candidates=50,
    detections=10,
    typical=6,
    calibration=8,
)

WORKLOAD = define(
    "retinanet",
    "RetinaNet",
    full=Variant(FULL, parameters=37_060_652, flops=402_416_789_504),
    tiny=Variant(TINY, parameters=303_617, flops=78_616_816),
    task="object detection",
    suites=("MLPerf Inference v6.0",),
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: detection.outputs(sizes.detections),
    max_batch=8,
    slo=Slo(99, 100),
    quality=Quality("mAP@[.5:.95]", 0.3755, "OpenImages validation, 264 classes"),
    citation="Lin et al. 2017, Focal Loss for Dense Object Detection, ICCV (arXiv:1708.02002)",
    origin="MLPerf Inference's reference, which is torchvision's code; 37.55 % mAP is its trained weights'.",
    locustfile="object_detection",
    build=build,
    samples=samples,
    **detection.of_coco(openimages.KEY, openimages.LAYOUT, *detection.squares(FULL.side), detection.own_category),
)
