"""Seeded weights for the two-stage detectors: random networks that find objects of most classes on most pictures."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from servemark.models.blocks import detection
from servemark.models.blocks.rcnn import Features, Sizes, network, pyramid
from servemark.models.blocks.weights import calibrate, seeded
from servemark.workload import Sample

if TYPE_CHECKING:
    import torch
    from torch import nn

CLASS_DEVIATION, BOX_DEVIATION, OBJECTNESS_DEVIATION, MASK_DEVIATION = 3.0, 0.3, 2.0, 2.0


def build(
    name: str, sizes: Sizes, pictures: Iterator[Sample], features: Callable[[Sizes], Features] = pyramid
) -> "nn.Module":
    """Seed the detector and spread its heads' answers, so that pictures have proposals and objects of most classes."""
    import torch
    from torch import nn

    batch = detection.calibration_batch(pictures, sizes.calibration)
    with seeded(name), torch.no_grad():
        model: Any = network(sizes, features).eval()  # torchvision has no types
        heads = model.roi_heads
        for part in (model.backbone.body, model.rpn.head.conv, heads):
            for module in part.modules():
                if isinstance(module, nn.Conv2d | nn.Linear | nn.ConvTranspose2d):
                    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        calibrate(model.backbone.body, batch)
        maps = list(model.backbone(batch).values())
        _spread_proposals(model.rpn.head, maps)
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
            detection.spread(heads.mask_predictor.mask_fcn_logits, _rows(answers), MASK_DEVIATION)
        if sizes.frozen:
            freeze(model)
    built: nn.Module = model
    return built


def _spread_proposals(head: Any, features: "list[torch.Tensor]") -> None:
    import torch

    objectness, deltas = head(features)
    detection.spread(head.cls_logits, torch.cat([_rows(level) for level in objectness]), OBJECTNESS_DEVIATION)
    detection.spread(head.bbox_pred, torch.cat([_rows(level) for level in deltas]), BOX_DEVIATION / 10)


def _rows(answers: "torch.Tensor") -> "torch.Tensor":
    """Turn [B, channels, H, W] into [B * H * W, channels]."""
    return answers.transpose(0, 1).flatten(1).t()


def freeze(module: "nn.Module") -> None:
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
