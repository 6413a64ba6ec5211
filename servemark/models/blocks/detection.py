"""Object detection: the requests, interface and calibration that the detectors share, and the parts of two of them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servemark.datasets import image_folder, voc2007
from servemark.datasets._coco_format import Layout
from servemark.models.blocks import resnet
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
    canvas[:, :height, :width] = (_channels_first(resized) / np.float32(255) - IMAGENET_MEAN) / IMAGENET_STD
    return {"image": canvas}


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


def coco_set(layout: Layout, path: Path, preprocess: Preprocess, fitted: Fitted, categories: Categories) -> LabelledSet:
    """A set in COCO's format; `categories` makes its ids of the model's labels, given all ids in order.

    Raises InputDataError naming the file, and the line or the entry.
    """
    data = layout.annotated(path)

    def example(picture: Path, entry: dict[str, Any], objects: list[dict[str, Any]]) -> Example:
        label = {"width": entry["width"], "height": entry["height"], "objects": objects}
        return Example((preprocess(image_folder.decode(picture, picture)),), label)

    def prediction(outputs: Sample, label: Any) -> Any:
        size = label["width"], label["height"]
        found = in_picture(outputs, size, fitted(size))
        return {**found, "labels": [categories(int(name), data.categories) for name in found["labels"]]}

    return LabelledSet.of(data.pictures, example, prediction)


def voc_set(path: Path, preprocess: Preprocess, fitted: Fitted) -> LabelledSet:
    """VOC 2007's test set. Raises InputDataError naming file and line."""

    def example(place: Path, objects: list[voc2007.Object]) -> Example:
        picture = image_folder.decode(place, place)
        return Example((preprocess(picture),), {"width": picture.width, "height": picture.height, "objects": objects})

    def prediction(outputs: Sample, label: Any) -> Any:
        size = label["width"], label["height"]
        return in_picture(outputs, size, fitted(size))

    return LabelledSet.of(voc2007.annotated(path), example, prediction)


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


def stretch(picture: "Image.Image", *, mean: npt.NDArray[np.float32], side: int) -> Sample:
    """Resize to a square whatever the shape, and subtract `mean`, on the scale 0 to 255 (SSD)."""
    from PIL import Image

    return {"image": _channels_first(picture.resize((side, side), Image.Resampling.BILINEAR)) - mean}


def _channels_first(picture: "Image.Image") -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(np.asarray(picture, np.float32).transpose(2, 0, 1))


def samples(
    rng: np.random.Generator, shapes: Sequence[tuple[int, int]], shares: Sequence[float], preprocess: Preprocess
) -> Iterator[Sample]:
    """Draw photographs whose (height, width) is one of `shapes`, in these shares."""
    while True:
        height, width = shapes[rng.choice(len(shapes), p=shares)]
        yield preprocess(photograph(rng, height, width))


def read(pictures: Iterator[Path], preprocess: Preprocess) -> Iterator[Sample]:
    """Preprocess picture files. Raises InputDataError naming the file."""
    for path in pictures:
        yield preprocess(image_folder.decode(path, path))


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
