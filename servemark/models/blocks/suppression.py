"""Non-maximum suppression of a batch in graphs of fixed shape, equal to torchvision's loop over each picture.

Boxes are (x1, y1, x2, y2). Both forms are exact: their loops end when nothing is left to do, not after a set number of
steps, and become ONNX's Loop.
"""

from typing import TYPE_CHECKING

from servemark.models.blocks.sequences import repeat_while

if TYPE_CHECKING:
    import torch


def overlap(box: "torch.Tensor", other: "torch.Tensor", threshold: float) -> "torch.Tensor":
    """Tell which boxes [..., 4] and others [..., 4], broadcast, have a larger intersection over union."""
    left, top, right, bottom = box.unbind(-1)
    other_left, other_top, other_right, other_bottom = other.unbind(-1)
    width = (right.minimum(other_right) - left.maximum(other_left)).clamp(min=0)
    height = (bottom.minimum(other_bottom) - top.maximum(other_top)).clamp(min=0)
    intersection = width * height
    area = (right - left) * (bottom - top)
    other_area = (other_right - other_left) * (other_bottom - other_top)
    return intersection / (area + other_area - intersection) > threshold


def survivors(boxes: "torch.Tensor", valid: "torch.Tensor", threshold: float) -> "torch.Tensor":
    """Suppress boxes [B, K, 4], best first, of which `valid` [B, K] count: which are left [B, K].

    Iterates keep <- valid and not any(keep[i] and i overlaps j and i is better than j) from all-true until nothing
    changes (Zheng et al. 2021, "Enhancing Geometric Factors in Model Learning and Inference for Object Detection and
    Instance Segmentation", IEEE Trans. Cybernetics, "Cluster-NMS"). After t steps the first t boxes are final, so it
    ends, and the fixed point satisfies the greedy rule, which has only one solution.
    """
    import torch

    count = boxes.shape[-2]
    better = torch.ones(count, count, dtype=torch.bool, device=boxes.device).tril(-1)
    overlaps = overlap(boxes[..., :, None, :], boxes[..., None, :, :], threshold) & better
    suppressors = overlaps.to(boxes.dtype)  # [B, j, i]; ONNX reduces no booleans

    def step(keep: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left = valid & ((suppressors * keep[..., None, :]).amax(dim=-1) == 0)
        return left.to(keep.dtype), (left != (keep > 0)).any()

    def changed(_: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
        return changed.clone()

    keep, _ = repeat_while(changed, step, (valid.to(boxes.dtype), valid.any()))
    return keep > 0


def select(
    boxes: "torch.Tensor", scores: "torch.Tensor", threshold: float, count: int, *, labels: "torch.Tensor | None" = None
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Pick the `count` best detections, suppressing within each class: boxes [B, C, N, 4], scores [B, C, N] > 0.

    Returns the picks' scores [B, count], 0 where nothing was left, and their places [B, count] in a flat [C * N]. A
    score of 0 marks no candidate. `labels` [B, N] tell the classes of candidates that stand together as one. Each step
    takes the best that is left, so only as many steps run as the picture with the most detections in the batch has.
    """
    import torch

    classes, candidates = scores.shape[1:]
    class_index = torch.arange(classes, device=scores.device)
    candidate_index = torch.arange(candidates, device=scores.device)
    slots = torch.arange(count, device=scores.device)

    def step(
        number: torch.Tensor, left: torch.Tensor, found: torch.Tensor, places: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        score, place = left.flatten(1).max(dim=1, keepdim=True)  # [B, 1]
        kind, candidate = place // candidates, place % candidates
        rivals = boxes.gather(1, kind[:, :, None, None].expand(-1, -1, candidates, 4)).squeeze(1)  # [B, N, 4]
        best = rivals.gather(1, candidate[:, :, None].expand(-1, -1, 4))  # [B, 1, 4]
        # an empty box overlaps nothing, not even itself
        beaten = overlap(rivals, best, threshold)
        if labels is not None:
            beaten = beaten & (labels == labels.gather(1, candidate))
        beaten = beaten | (candidate_index == candidate)
        gone = (class_index == kind)[:, :, None] & beaten[:, None, :]
        here = slots == number
        return (
            number + 1,
            left.masked_fill(gone, 0),
            torch.where(here, score, found),
            torch.where(here, place, places),
        )

    def unfinished(number: torch.Tensor, left: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return (number < count) & (left > 0).any()

    number = torch.zeros((), dtype=torch.int64, device=scores.device)
    found = scores.new_zeros(scores.shape[0], count)
    places = torch.zeros_like(found, dtype=torch.int64)
    _, _, found, places = repeat_while(unfinished, step, (number, scores.contiguous(), found, places))
    return found, places
