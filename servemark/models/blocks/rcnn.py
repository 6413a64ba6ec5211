"""Two-stage detectors: faster_rcnn and mask_rcnn on a feature pyramid, faster_rcnn_c4; from torchvision's blocks.

torchvision answers a list of pictures with lists of differing lengths. Here the same modules, under the same parameter
names, answer a batch with tensors of fixed shape: what does not count is marked instead of removed. Their seeded
weights are random, and find objects of most classes on most pictures.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from servemark.models.blocks import detection, resnet
from servemark.models.blocks.weights import calibrate, drawn, seeded
from servemark.workload import Module, Sample

if TYPE_CHECKING:
    import torch

ANCHORS = (32, 64, 128, 256, 512)
RATIOS = (0.5, 1.0, 2.0)
MIN_BOX = 1e-2
"""Detections with a shorter side, in pixels, are dropped before suppression (torchvision; proposals: 1e-3)."""


@dataclass(frozen=True)
class Sizes:
    """Backbone, pyramid and heads; `classes` has the background in it; `masks` is the mask head's width, 0 for none."""

    blocks: tuple[int, int, int, int]
    side: int
    classes: int
    width: int = 64
    pyramid: int = 256
    representation: int = 1024
    candidates: int = 1000
    """Regions of each feature map before suppression."""
    proposals: int = 1000
    detections: int = 100
    masks: int = 0
    frozen: bool = False
    """True if the backbone's norms are constants instead of parameters."""
    typical: int = 40
    """Number of detections that the seeded weights give on the mean picture."""
    calibration: int = 2
    """Pictures that the weights are calibrated with."""


TINY = Sizes(
    blocks=(1, 1, 1, 1),
    side=128,
    classes=5,
    width=8,
    pyramid=24,
    representation=32,
    candidates=50,
    proposals=50,
    detections=10,
    typical=8,
    calibration=8,
)


@dataclass
class Features:
    """Feature maps in which a detector finds regions, and the head that reads regions."""

    backbone: Any
    """image -> feature maps by "0", "1" ...; its `body` is the trunk, which is calibrated."""
    strides: tuple[int, ...]
    """Strides of the maps, in pixels."""
    anchors: tuple[tuple[int, ...], ...]
    """Sides of each map's anchors, in pixels."""
    cropped: int
    """Number of maps from which regions are cropped; each map serves the regions of its size."""
    crop: int
    """Side of a crop."""
    head: Module
    """[N, channels, crop, crop] -> [N, representation]."""


def pyramid(sizes: Sizes) -> Features:
    """Five maps of equal width; two dense layers read a region (Lin et al. 2017)."""
    from torchvision.models.detection.faster_rcnn import TwoMLPHead
    from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

    stages, crop = range(4), 7
    trunk = resnet.Sizes(blocks=sizes.blocks, width=sizes.width)
    backbone = detection.pyramid(trunk, stages, sizes.pyramid, LastLevelMaxPool())
    head = TwoMLPHead(sizes.pyramid * crop**2, sizes.representation)
    return Features(backbone, (4, 8, 16, 32, 64), tuple((side,) for side in ANCHORS), len(stages), crop, head)


def network(sizes: Sizes, features: Callable[[Sizes], Features] = pyramid) -> Module:
    """Define the detector: image [B, 3, side, side] -> boxes [B, D, 4], scores, labels [B, D], (masks), counts [B, 1].

    Boxes are pixels (x1, y1, x2, y2), best first; rows beyond the count are 0. Masks [B, D, 28, 28] are the
    probabilities of the detected class within its box.
    """
    import torch
    from torch import nn
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
    from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
    from torchvision.ops import MultiScaleRoIAlign, roi_align

    form = features(sizes)
    levels = [f"{level}" for level in range(form.cropped)]

    class Detector(FasterRCNN):  # type: ignore[misc]  # torchvision has no types
        def __init__(self) -> None:
            super().__init__(
                form.backbone,
                min_size=sizes.side,
                max_size=sizes.side,
                rpn_anchor_generator=AnchorGenerator(form.anchors, (RATIOS,) * len(form.anchors)),
                rpn_pre_nms_top_n_test=sizes.candidates,
                rpn_post_nms_top_n_test=sizes.proposals,
                box_roi_pool=MultiScaleRoIAlign(levels, output_size=form.crop, sampling_ratio=2),
                box_head=form.head,
                box_predictor=FastRCNNPredictor(sizes.representation, sizes.classes),
                box_detections_per_img=sizes.detections,
            )
            if sizes.masks:
                self.roi_heads.mask_roi_pool = MultiScaleRoIAlign(levels, output_size=14, sampling_ratio=2)
                self.roi_heads.mask_head = MaskRCNNHeads(sizes.pyramid, (sizes.masks,) * 4, dilation=1)
                self.roi_heads.mask_predictor = MaskRCNNPredictor(sizes.masks, sizes.masks, sizes.classes)
            sides = [-(-sizes.side // stride) for stride in form.strides]
            generator = self.rpn.anchor_generator
            anchors, self.anchors_per_level = detection.fixed_anchors(generator, sizes.side, sides)
            self.register_buffer("anchors", anchors, persistent=False)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            features, limits = list(self.backbone(image).values()), detection.extents(image)
            proposals, valid = self.propose(features, limits)
            boxes, scores, labels = self.detect(*self.classify(features, proposals), proposals, valid, limits)
            counts = (scores > 0).sum(dim=1, keepdim=True, dtype=torch.int32)
            masks = (self.segment(features, boxes, labels, scores > 0),) if sizes.masks else ()
            return boxes, scores, labels.int(), *masks, counts

        def propose(self, features: list[torch.Tensor], limits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """Find regions [B, P, 4] within the pictures, best first, and which of them count [B, P]; others are 0."""
            boxes, scores = [], []
            for logits, deltas, anchors in zip(
                *self.rpn.head(features), self.anchors.split(self.anchors_per_level), strict=True
            ):
                batch, ratios = logits.shape[:2]
                score, index = logits.permute(0, 2, 3, 1).flatten(1).topk(min(sizes.candidates, len(anchors)), dim=1)
                delta = deltas.reshape(batch, ratios, 4, *deltas.shape[2:]).permute(0, 3, 4, 1, 2).flatten(1, 3)
                delta = delta.gather(1, index[:, :, None].expand(-1, -1, 4))
                decoded = self.rpn.box_coder.decode_single(delta.flatten(0, 1), anchors[index.flatten()])
                padding = sizes.candidates - index.shape[1]
                boxes.append(nn.functional.pad(decoded.reshape(batch, -1, 4), (0, 0, 0, padding)))
                scores.append(nn.functional.pad(score.sigmoid(), (0, padding), value=-1))
            level_boxes = detection.clip(torch.stack(boxes, dim=1), limits)  # [B, L, P, 4]
            score = torch.stack(scores, dim=1)
            valid = (score >= 0) & _is_larger(level_boxes, self.rpn.min_size)
            kept = detection.survivors(level_boxes, valid, self.rpn.nms_thresh)
            best, index = torch.where(kept, score, -1).flatten(1).topk(sizes.proposals, dim=1)
            valid = best >= 0
            found = level_boxes.flatten(1, 2).gather(1, index[:, :, None].expand(-1, -1, 4))
            return found * valid[:, :, None], valid

        def classify(self, features: list[torch.Tensor], proposals: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """Answer class logits [B, P, C] and box deltas [B, P, 4 C]."""
            regions = self.roi_heads.box_head(self.align(features, proposals, form.crop))
            logits, deltas = self.roi_heads.box_predictor(regions)
            return logits.reshape(-1, sizes.proposals, logits.shape[-1]), deltas.reshape(
                -1, sizes.proposals, deltas.shape[-1]
            )

        def detect(
            self,
            logits: torch.Tensor,
            deltas: torch.Tensor,
            proposals: torch.Tensor,
            valid: torch.Tensor,
            limits: torch.Tensor,
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            """Choose the best detections: boxes [B, D, 4], scores [B, D] and labels [B, D]."""
            heads = self.roi_heads
            boxes = heads.box_coder.decode_single(deltas.flatten(0, 1), proposals.flatten(0, 1))
            boxes = boxes.reshape(-1, sizes.proposals, sizes.classes, 4)[:, :, 1:].transpose(1, 2)
            boxes = detection.clip(boxes, limits)
            scores = logits.softmax(dim=-1)[:, :, 1:].transpose(1, 2)  # [B, C - 1, P]
            candidate = (scores > heads.score_thresh) & valid[:, None] & _is_larger(boxes, MIN_BOX)
            found, places = detection.select(boxes, scores * candidate, heads.nms_thresh, sizes.detections)
            picked = boxes.flatten(1, 2).gather(1, places[:, :, None].expand(-1, -1, 4))
            is_real = found > 0
            return picked * is_real[:, :, None], found, (places // sizes.proposals + 1) * is_real

        def segment(
            self, features: list[torch.Tensor], boxes: torch.Tensor, labels: torch.Tensor, is_real: torch.Tensor
        ) -> torch.Tensor:
            """Answer the masks [B, D, 28, 28] of the detections."""
            logits = self.roi_heads.mask_predictor(self.roi_heads.mask_head(self.align(features, boxes, 14)))
            side = logits.shape[-1]
            own = logits.gather(1, labels.reshape(-1, 1, 1, 1).expand(-1, 1, side, side))
            masks: torch.Tensor = own.sigmoid().reshape(-1, sizes.detections, side, side) * is_real[:, :, None, None]
            return masks

        def align(self, features: list[torch.Tensor], boxes: torch.Tensor, size: int) -> torch.Tensor:
            """Crop [B * P, channels, size, size] from each box's level (Lin et al. 2017, equation 1).

            Every level crops every box, those of other levels outside its picture, where the features count as 0. So
            the sum is the crop from the box's own level, without indices whose number depends on the data.
            """
            batch, count = boxes.shape[:2]
            picture = torch.arange(batch, device=boxes.device, dtype=boxes.dtype).repeat_interleave(count)[:, None]
            regions = boxes.flatten(0, 1)
            lengths = ((regions[:, 2] - regions[:, 0]) * (regions[:, 3] - regions[:, 1])).sqrt()[:, None]
            crops: torch.Tensor = regions.new_zeros(())
            for level, stride in enumerate(form.strides[: form.cropped]):
                # the pyramid's level k of 2 to 5 holds sides from 224 * 2^(k - 4); torchvision adds 1e-6 to log2(side)
                low, high = (224 * 2.0 ** (k - 4 - 1e-6) for k in (level + 2, level + 3))
                own = torch.ones_like(lengths, dtype=torch.bool)
                if level > 0:
                    own = own & (lengths >= low)
                if level < len(levels) - 1:
                    own = own & (lengths < high)
                placed = torch.where(own, regions, -4 * stride)
                crops = crops + roi_align(
                    features[level], torch.cat([picture, placed], dim=1), (size, size), 1 / stride, sampling_ratio=2
                )
            return crops

    return Detector()


def samples(
    rng: np.random.Generator, sizes: Sizes, aspects: Sequence[tuple[int, int, float]], *, shorter: int
) -> Iterator[Sample]:
    """Draw photographs of (height, width, share), enlarged by 8 / 5 at the longer side, and letterboxed."""
    longer = sizes.side * 5 // 8  # the pictures of VOC are 500 pixels long, those of COCO 640
    shapes = [
        (longer * height // max(height, width), longer * width // max(height, width)) for height, width, _ in aspects
    ]
    preprocess = partial(detection.letterbox, shorter=shorter, side=sizes.side)
    return detection.samples(rng, shapes, [share for *_, share in aspects], preprocess)


def _is_larger(boxes: "torch.Tensor", side: float) -> "torch.Tensor":
    return (boxes[..., 2] - boxes[..., 0] >= side) & (boxes[..., 3] - boxes[..., 1] >= side)


CLASS_DEVIATION, BOX_DEVIATION, OBJECTNESS_DEVIATION, MASK_DEVIATION = 3.0, 0.3, 2.0, 2.0


def build(
    name: str, sizes: Sizes, pictures: Iterator[Sample], features: Callable[[Sizes], Features] = pyramid
) -> Module:
    """Seed the detector and spread its heads' answers, so that pictures have proposals and objects of most classes."""
    import torch
    from torch import nn

    (batch,) = drawn(pictures, sizes.calibration)
    with seeded(name), torch.no_grad():
        model: Any = network(sizes, features).eval()  # torchvision has no types
        heads = model.roi_heads
        for part in (model.backbone.body, model.rpn.head.conv, heads):
            for module in part.modules():
                if isinstance(module, nn.Conv2d | nn.Linear | nn.ConvTranspose2d):
                    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        calibrate(model.backbone.body, batch)
        maps = list(model.backbone(batch).values())
        head, (objectness, deltas) = model.rpn.head, model.rpn.head(maps)
        of_levels = torch.cat([detection.rows(level) for level in objectness])
        detection.spread(head.cls_logits, of_levels, OBJECTNESS_DEVIATION)
        detection.spread(head.bbox_pred, torch.cat([detection.rows(level) for level in deltas]), BOX_DEVIATION / 10)
        limits = detection.extents(batch)
        proposals, valid = model.propose(maps, limits)
        crops = model.align(maps, proposals, heads.box_roi_pool.output_size[0])[valid.flatten()]
        calibrate(heads.box_head, crops)
        regions = heads.box_head(crops)
        detection.spread_classes(heads.box_predictor.cls_score, regions, sizes.classes, CLASS_DEVIATION)
        detection.spread(heads.box_predictor.bbox_pred, heads.box_predictor.bbox_pred(regions), BOX_DEVIATION)
        logits, deltas = model.classify(maps, proposals)

        def count(background: float) -> float:
            scaled = torch.cat([logits[:, :, :1] * background, logits[:, :, 1:]], dim=2)
            _, scores, _ = model.detect(scaled, deltas, proposals, valid, limits)
            return float((scores > 0).sum()) / len(batch)

        heads.box_predictor.cls_score.weight[0] *= detection.find_background(count, sizes.typical)
        if sizes.masks:
            boxes, *_ = model.detect(*model.classify(maps, proposals), proposals, valid, limits)
            answers = heads.mask_predictor(heads.mask_head(model.align(maps, boxes, 14)))
            detection.spread(heads.mask_predictor.mask_fcn_logits, detection.rows(answers), MASK_DEVIATION)
        if sizes.frozen:
            freeze(model)
    built: Module = model
    return built


def freeze(module: Module) -> None:
    """Replace every BatchNorm by its constant form, of the same names."""
    from torch import nn
    from torchvision.ops import FrozenBatchNorm2d

    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            frozen = FrozenBatchNorm2d(child.num_features, eps=child.eps)
            frozen.load_state_dict(child.state_dict())
            setattr(module, name, frozen.eval())
        else:
            freeze(child)
