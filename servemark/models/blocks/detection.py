"""Object detection: the requests, interface, calibration and suppression that the detectors share, and some parts.

Boxes are (x1, y1, x2, y2). Suppression equals torchvision's loop over each picture, in graphs of fixed shape: its loops
end when nothing is left to do, not after a set number of steps, and become ONNX's Loop.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servemark.datasets import image_folder, voc2007
from servemark.datasets._coco_format import Layout
from servemark.models.blocks import resnet
from servemark.models.blocks.sequences import repeat_while
from servemark.models.synthesis.images import IMAGENET_MEAN, IMAGENET_STD, REQUEST_NOISE, image_pool
from servemark.workload import Example, LabelledSet, Module, Sample, Tensor

if TYPE_CHECKING:
    import torch
    from PIL import Image

Preprocess = Callable[["Image.Image"], Sample]
Fitted = Callable[[tuple[int, int]], tuple[int, int]]
"""A picture's width and height -> those of it in the request."""
Categories = Callable[[int, Sequence[int]], int]
BACKGROUND_LIMIT, BISECTION_STEPS = 100.0, 16


def outputs(detections: int, *, masks: bool = False) -> tuple[Tensor, ...]:
    """The interface of a detector: rows beyond `num_detections` are 0; masks are probabilities within the boxes."""
    return (
        Tensor("boxes", "FP32", (detections, 4)),
        Tensor("scores", "FP32", (detections,)),
        Tensor("labels", "INT32", (detections,)),
        *((Tensor("masks", "FP32", (detections, 28, 28)),) if masks else ()),
        Tensor("num_detections", "INT32", (1,)),
    )


def photograph(rng: np.random.Generator, height: int, width: int) -> "Image.Image":
    """Draw a picture with the statistics of natural images, never the same twice."""
    from PIL import Image

    longer = max(height, width)
    pool = image_pool(longer, longer)  # one pool for all shapes of a data set
    top, left = rng.integers(longer - height + 1), rng.integers(longer - width + 1)
    picture = pool[rng.integers(len(pool))][:, top : top + height, left : left + width]
    noisy = picture + rng.standard_normal(picture.shape, dtype=np.float32) * np.float32(REQUEST_NOISE)
    return Image.fromarray((np.clip(noisy, 0, 1) * 255).round().astype(np.uint8).transpose(1, 2, 0))


def letterbox(picture: "Image.Image", *, shorter: int, side: int) -> Sample:
    """Resize to the shorter side, the longer one capped at `side`, normalise, and pad with 0 to a square.

    Bilinear, the picture in the upper left corner, as in torchvision's GeneralizedRCNNTransform. That one's resize is
    the same where it enlarges; where it shrinks, Pillow's takes the mean of all pixels and that one leaves some out.
    """
    from PIL import Image

    width, height = letterboxed(picture.size, shorter=shorter, side=side)
    resized = picture.resize((width, height), Image.Resampling.BILINEAR)
    canvas = np.zeros((3, side, side), np.float32)
    canvas[:, :height, :width] = _normalised(_channels_first(resized))
    return {"image": canvas}


def letterboxes(*, shorter: int, side: int) -> tuple[Preprocess, Fitted]:
    """Give what makes a letterboxed request of a picture, and the sizes that pictures have in it."""
    return partial(letterbox, shorter=shorter, side=side), partial(letterboxed, shorter=shorter, side=side)


def letterboxed(size: tuple[int, int], *, shorter: int, side: int) -> tuple[int, int]:
    """Width and height of a picture of this size in the letterbox."""
    scale = min(shorter / min(size), side / max(size))
    width, height = (max(1, min(side, int(length * scale))) for length in size)
    return width, height


def in_picture(outputs: Sample, size: tuple[int, int], resized: tuple[int, int]) -> dict[str, Any]:
    """Convert a detector's outputs to pixels of the picture, which was resized for the model; masks as run lengths."""
    count = int(outputs["num_detections"].reshape(-1)[0])
    scale = np.array([size[0] / resized[0], size[1] / resized[1]] * 2)
    found = {name: np.asarray(outputs[name][:count]) for name in outputs if name != "num_detections"}
    boxes = found["boxes"].astype(np.float64) * scale
    if "masks" in found:
        # Ours end where the picture does. Another's may not: their masks would take any amount of memory.
        inside = boxes.clip(0, [*size, *size])
        found["masks"] = np.array([_pasted(*each, size) for each in zip(found["masks"], inside, strict=True)], object)
    return {**found, "boxes": boxes}


def _pasted(mask: npt.NDArray[Any], box: npt.NDArray[np.float64], size: tuple[int, int]) -> dict[str, Any]:
    """A mask's probabilities in its box of the picture, above 0.5: pasted by torchvision, encoded by pycocotools."""
    import torch
    from pycocotools import mask as encoding
    from torchvision.models.detection.roi_heads import paste_masks_in_image

    tensors = (torch.from_numpy(np.array(each, np.float32))[None] for each in (mask[None], box))
    whole = paste_masks_in_image(*tensors, (size[1], size[0]))[0, 0].numpy()
    found: dict[str, Any] = encoding.encode(np.asfortranarray(whole > 0.5, np.uint8))
    return found


def counted_from_one(label: int, ids: Sequence[int]) -> int:
    """Return COCO's id of a label that counts the categories from 1; 0, which is not a category, of any other label."""
    return ids[label - 1] if 1 <= label <= len(ids) else 0


def own_category(label: int, _ids: Sequence[int]) -> int:
    """Return the label, of a model that answers with the ids of the categories."""
    return label


def of_coco(
    dataset: str, layout: Layout, preprocess: Preprocess, fitted: Fitted, categories: Categories
) -> dict[str, Any]:
    """Give `define` the readers of a set in COCO's format; `categories` makes its ids of labels, given all in order.

    They raise InputDataError naming the file, and the line or the entry.
    """

    def labelled(path: Path) -> LabelledSet:
        data = layout.annotated(path)

        def example(picture: Path, entry: dict[str, Any], objects: list[dict[str, Any]]) -> Example:
            label = {"width": entry["width"], "height": entry["height"], "objects": objects}
            return Example((preprocess(image_folder.decode(picture, picture)),), label)

        def prediction(outputs: Sample, label: Any) -> Any:
            found = _in_labelled(outputs, label, fitted)
            return {**found, "labels": [categories(int(name), data.categories) for name in found["labels"]]}

        return LabelledSet.of(data.pictures, example, prediction)

    return {"dataset": dataset, "read": partial(_requests, layout.pictures, preprocess), "labelled": labelled}


def of_voc(preprocess: Preprocess, fitted: Fitted) -> dict[str, Any]:
    """Give `define` the readers of VOC 2007's test set, which raise InputDataError naming file and line."""

    def labelled(path: Path) -> LabelledSet:
        def example(place: Path, objects: list[voc2007.Object]) -> Example:
            picture = image_folder.decode(place, place)
            label = {"width": picture.width, "height": picture.height, "objects": objects}
            return Example((preprocess(picture),), label)

        return LabelledSet.of(
            voc2007.annotated(path), example, lambda outputs, label: _in_labelled(outputs, label, fitted)
        )

    return {"dataset": voc2007.KEY, "read": partial(_requests, voc2007.pictures, preprocess), "labelled": labelled}


def _requests(pictures: Callable[[Path], Iterator[Path]], preprocess: Preprocess, path: Path) -> Iterator[Sample]:
    """Make one request of each picture. Raises InputDataError naming the file."""
    for picture in pictures(path):
        yield preprocess(image_folder.decode(picture, picture))


def _in_labelled(outputs: Sample, label: Any, fitted: Fitted) -> dict[str, Any]:
    size = label["width"], label["height"]
    return in_picture(outputs, size, fitted(size))


def pyramid(trunk: resnet.Sizes, stages: Sequence[int], channels: int, extra: Module) -> Any:
    """Put a feature pyramid of equal channels on these stages of a ResNet, and `extra` above it (Lin et al. 2017)."""
    from torchvision.models.detection.backbone_utils import BackboneWithFPN

    return BackboneWithFPN(
        resnet.network(trunk),
        return_layers={f"layer{stage + 1}": f"{number}" for number, stage in enumerate(stages)},
        in_channels_list=[trunk.width * 4 * 2**stage for stage in stages],
        out_channels=channels,
        extra_blocks=extra,
    )


def fixed_anchors(generator: Any, side: int, sides: Sequence[int]) -> tuple["torch.Tensor", list[int]]:
    """Give the anchors of a square picture of this side and how many each map has, whose sides are given."""
    import torch
    from torchvision.models.detection.image_list import ImageList

    grids = [torch.empty(1, 1, cells, cells) for cells in sides]
    (anchors,) = generator(ImageList(torch.empty(1, 3, side, side), [(side, side)]), grids)
    places = generator.num_anchors_per_location()
    return anchors, [cells**2 * count for cells, count in zip(sides, places, strict=True)]


def extents(image: "torch.Tensor") -> "torch.Tensor":
    """Find the letterboxed pictures in `image` [B, 3, H, W]: their limits (width, height, width, height) [B, 4].

    The padding is 0 in all channels; no row or column of a normalised picture is.
    """
    import torch

    def last(axis: int) -> torch.Tensor:
        told = image.abs().amax(dim=(1, 5 - axis)).sign()  # [B, size]
        return (told * torch.arange(1, image.shape[axis] + 1, device=image.device)).amax(dim=1)

    width, height = last(3), last(2)
    return torch.stack([width, height, width, height], dim=1)


def clip(boxes: "torch.Tensor", limits: "torch.Tensor") -> "torch.Tensor":
    """Cut boxes [B, ..., 4] off at their picture's limits [B, 4]."""
    import torch

    return torch.minimum(boxes.clamp(min=0), limits.reshape(-1, *[1] * (boxes.dim() - 2), 4))


def stretch(picture: "Image.Image", side: int) -> npt.NDArray[np.float32]:
    """Resize to a square whatever the shape: [3, side, side] on the scale 0 to 255 (SSD)."""
    from PIL import Image

    return _channels_first(picture.resize((side, side), Image.Resampling.BILINEAR))


def stretched(picture: "Image.Image", side: int) -> Sample:
    """Resize to a square whatever the shape, and normalise by ImageNet's mean and deviation."""
    return {"image": _normalised(stretch(picture, side))}


def squares(side: int) -> tuple[Preprocess, Fitted]:
    """Give what makes a square request of a picture, and the sizes that pictures have in it."""
    return partial(stretched, side=side), lambda _size: (side, side)


def _channels_first(picture: "Image.Image") -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(np.asarray(picture, np.float32).transpose(2, 0, 1))


def _normalised(pixels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    normalised: npt.NDArray[np.float32] = (pixels / np.float32(255) - IMAGENET_MEAN) / IMAGENET_STD
    return normalised


def samples(
    rng: np.random.Generator, shapes: Sequence[tuple[int, int]], shares: Sequence[float], preprocess: Preprocess
) -> Iterator[Sample]:
    """Draw photographs whose (height, width) is one of `shapes`, in these shares."""
    while True:
        height, width = shapes[rng.choice(len(shapes), p=shares)]
        yield preprocess(photograph(rng, height, width))


def rows(answers: "torch.Tensor") -> "torch.Tensor":
    """Turn [B, channels, H, W] into [B * H * W, channels]."""
    return answers.transpose(0, 1).flatten(1).t()


def spread(layer: Any, answers: "torch.Tensor", deviation: float) -> None:
    """Rescale a linear layer in place: its `answers` [N, channels] get this deviation, around a mean of 0 each."""
    mean = answers.mean(dim=0)
    scale = deviation / (answers - mean).std()
    layer.weight.data.mul_(scale)
    layer.bias.data.sub_(mean).mul_(scale)


def spread_classes(layer: Any, inputs: "torch.Tensor", classes: int, deviation: float) -> None:
    """Make a classifier, in place, that answers differently to different regions; class 0 is the background.

    Takes the direction of the mean of `inputs` [N, channels, ...] out of the classes' weights and gives it to the
    background, without any bias. So whether a region is an object hangs on what it holds and not on its contrast, and
    pictures have similar numbers of detections.
    """
    weight = layer.weight.data
    mean = inputs.transpose(0, 1).flatten(1).mean(dim=1).reshape(1, -1, *[1] * (weight.dim() - 2)).expand_as(weight[:1])
    direction = mean / mean.square().sum()
    response = (weight * mean).flatten(1).sum(dim=1)
    weight.sub_(response.reshape(-1, *[1] * (weight.dim() - 1)) * direction)
    layer.bias.data.zero_()
    weight.mul_(deviation / layer(inputs).std())  # of all classes: few regions tell little about one
    weight[::classes] = direction


def find_background(count: Callable[[float], float], wanted: float) -> float:
    """Bisect for the factor of the background's logits at which `count`, which falls with it, comes to `wanted`."""
    low, high = 0.0, BACKGROUND_LIMIT
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if count(middle) > wanted else (low, middle)
    return high


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
