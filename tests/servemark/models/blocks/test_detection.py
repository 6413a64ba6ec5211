"""Detectors: suppression in fixed shapes against torchvision's, whole models against torchvision's own, readers."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pycocotools import mask as encoding
from torchvision.models import detection
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.retinanet import RetinaNet
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.models.detection.ssd import SSD
from torchvision.ops import batched_nms, nms
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

from exporters.pipeline import golden
from servemark import workload
from servemark.datasets import coco2017, voc2007
from servemark.errors import InputDataError
from servemark.models import faster_rcnn, faster_rcnn_c4, mask_rcnn, retinanet, ssd300, ssd300_coco, ssd_resnet34
from servemark.models.blocks import detection as blocks
from servemark.models.blocks import rcnn
from servemark.models.blocks.detection import select, survivors
from tests.servemark.datasets.test_labels import write, write_picture
from tests.support.workload_data import batch_of, firm, read_requests

TWO_STAGES = ["faster_rcnn", "faster_rcnn_c4", "mask_rcnn"]
DETECTORS = ["ssd300", "retinanet", *TWO_STAGES]
TINY = [f"{name}_tiny" for name in DETECTORS]
MODULES: dict[str, Any] = {
    "ssd300": ssd300,
    "ssd300_coco": ssd300_coco,
    "ssd_resnet34": ssd_resnet34,
    "faster_rcnn": faster_rcnn,
    "faster_rcnn_c4": faster_rcnn_c4,
    "mask_rcnn": mask_rcnn,
    "retinanet": retinanet,
}
SIZES = [*TINY, *(pytest.param(name, marks=pytest.mark.slow) for name in MODULES)]
CLASSIFIER = {"ssd300": "head.classification_head.module_list", "rcnn": "roi_heads.box_predictor.cls_score"}


def crowd(*shape: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes [*shape, 4] of which most overlap others, some twice the same, some empty; scores, best first."""
    generator = torch.Generator().manual_seed(seed)
    centre, size = torch.rand(2, *shape, 2, generator=generator)
    boxes = torch.cat([centre * 60 - size * 20, centre * 60 + size * 20], dim=-1).clamp(0, 60)
    boxes[..., 10:20, :] = boxes[..., 20:30, :]
    boxes[..., 30:33, 2:] = boxes[..., 30:33, :2]
    return boxes, torch.rand(*shape, generator=generator).sort(dim=-1, descending=True).values


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.7])
def test_survivors_are_those_of_greedy_suppression(threshold: float) -> None:
    boxes, scores = crowd(3, 4, 200, seed=1)
    valid = scores > 0.1
    keep = survivors(boxes, valid, threshold)
    for picture, level in np.ndindex(3, 4):
        found = valid[picture, level].nonzero()[:, 0]
        expected = found[nms(boxes[picture, level][found], scores[picture, level][found], threshold)]
        assert 10 < len(expected) < len(found)
        assert keep[picture, level].nonzero()[:, 0].tolist() == expected.tolist()


def test_survivors_are_exact_for_chains_of_any_length() -> None:
    """Each box overlaps only its neighbours: the last one's fate hangs on all before it."""
    left = torch.arange(101.0) * 4
    boxes = torch.stack([left, torch.zeros(101), left + 12, torch.full((101,), 10.0)], dim=1)
    keep = survivors(boxes[None], torch.ones(1, 101, dtype=torch.bool), 0.4)
    assert keep[0].tolist() == [place % 2 == 0 for place in range(101)]


@pytest.mark.parametrize("count", [20, 300])
def test_selection_is_that_of_classwise_greedy_suppression(count: int) -> None:
    boxes, scores = crowd(3, 5, 100, seed=2)
    scores[0] *= scores[0] > 0.5
    scores[1] = 0
    found, places = select(boxes, scores, 0.4, count)
    for picture in range(3):
        candidates = (scores[picture].flatten() > 0).nonzero()[:, 0]
        kinds = torch.arange(5).repeat_interleave(100)[candidates]
        best = scores[picture].flatten()[candidates]
        expected = candidates[batched_nms(boxes[picture].flatten(0, 1)[candidates], best, kinds, 0.4)][:count]
        assert places[picture][: len(expected)].tolist() == expected.tolist()
        assert torch.equal(found[picture][: len(expected)], scores[picture].flatten()[expected])
        assert not found[picture][len(expected) :].any()


def test_selection_of_candidates_that_stand_together_is_classwise_too() -> None:
    boxes, scores = crowd(3, 300, seed=4)
    labels = torch.randint(3, (3, 300), generator=torch.Generator().manual_seed(4))
    _, places = select(boxes[:, None], scores[:, None], 0.4, 20, labels=labels)
    for picture in range(3):
        expected = batched_nms(boxes[picture], scores[picture], labels[picture], 0.4)[:20]
        assert places[picture].tolist() == expected.tolist()
        assert expected.tolist() != nms(boxes[picture], scores[picture], 0.4)[:20].tolist()


def built(name: str, background: float = 1.0) -> Any:
    """The detector, its background's logits scaled, or where it has none those of the objects."""
    model: Any = workload.get(name).build()
    if isinstance(model, RetinaNet):
        model.head.classification_head.cls_logits.bias.data -= math.log(background)
        return model
    path = CLASSIFIER["ssd300" if name.startswith("ssd") else "rcnn"]
    classifier = model.get_submodule(path)
    for layer in classifier if name.startswith("ssd") else [classifier]:
        layer.weight.data[:: classifier_classes(name)] *= background
    return model


def classifier_classes(name: str) -> int:
    module = MODULES[name.removesuffix("_tiny")]
    sizes: Any = module.TINY if name.endswith("_tiny") else module.FULL
    return int(sizes.classes)


def torchvisions_answer(model: Any, image: torch.Tensor) -> dict[str, torch.Tensor]:
    """Answer one picture by torchvision's code with the same modules."""
    answer: dict[str, torch.Tensor]
    if isinstance(model, SSD):
        model.transform.image_mean, model.transform.image_std = [0.0] * 3, [1.0] * 3
        (answer,) = SSD.forward(model, [image])
        return answer
    if isinstance(model, RetinaNet):
        model.transform.image_mean, model.transform.image_std = [0.0] * 3, [1.0] * 3
        model.transform.min_size, model.transform.max_size = (image.shape[1],), image.shape[1]
        (answer,) = RetinaNet.forward(model, [image])
        return answer
    height, width = (int(image.abs().sum(dim=dims).nonzero().max()) + 1 for dims in ((0, 2), (0, 1)))
    batch = ImageList(image[None], [(height, width)])
    features = model.backbone(batch.tensors)
    (answer,), _ = model.roi_heads(features, model.rpn(batch, features)[0], batch.image_sizes)
    return answer


def clear(model: Any, name: str, images: torch.Tensor) -> torch.Tensor:
    """The pictures whose detections hang on no rounding, neither the choice of boxes nor their order."""
    answered = golden.eager(model, workload.get(name), {"image": images.numpy()})
    return images[firm(model, workload.get(name), answered, change=10 * golden.ENGINES_DIFFER)]


def check_against_torchvision(model: Any, images: torch.Tensor) -> list[int]:
    assert len(images)
    with torch.no_grad():
        boxes, scores, labels, *masks, counts = model(images)
        for row, image in enumerate(images):
            expected = torchvisions_answer(model, image)
            count = int(counts[row, 0])
            assert count == len(expected["scores"])
            torch.testing.assert_close(boxes[row, :count], expected["boxes"], atol=1e-2, rtol=0)
            torch.testing.assert_close(scores[row, :count], expected["scores"], atol=1e-4, rtol=0)
            assert labels[row, :count].tolist() == expected["labels"].tolist()
            if masks:
                torch.testing.assert_close(masks[0][row, :count], expected["masks"][:, 0], atol=1e-4, rtol=0)
            assert not any(answer[row, count:].any() for answer in (boxes, scores, labels, *masks))
    found: list[int] = counts[:, 0].tolist()
    return found


@pytest.mark.parametrize("name", SIZES)
def test_detections_are_torchvisions_own(name: str) -> None:
    full = not name.endswith("_tiny")
    model, images = built(name), batch_of(workload.get(name), 4 if full else 6, seed=3)[0]
    counts = check_against_torchvision(model, clear(model, name, images))
    assert len(set(counts)) > 1
    assert 20 <= np.mean(counts) <= 100 if full else 3 <= np.mean(counts) <= 10


@pytest.mark.parametrize("name", TWO_STAGES)
def test_boxes_end_where_the_picture_does(name: str) -> None:
    """A picture of 96 x 128 in a square of 128: torchvision cuts boxes off at 96, and so do we."""
    image = batch_of(workload.get(f"{name}_tiny"), 4, seed=3)[0].clone()
    image[:, :, 96:] = 0
    image[0, :, :, 60:] = 0
    model = built(f"{name}_tiny", 0.1)
    check_against_torchvision(model, clear(model, f"{name}_tiny", image))
    with torch.no_grad():
        boxes = model(image)[0]
    assert boxes[..., 3].max() == 96
    assert boxes[0, :, 2].max() == 60
    assert boxes[1:, :, 2].max() == 128


@pytest.mark.parametrize("name", TINY)
def test_crowded_detections_are_torchvisions_own(name: str) -> None:
    """With hardly any background there are many overlapping candidates of every class, and more than are answered."""
    model, images = built(name, 0.1), batch_of(workload.get(name), 4, seed=3)[0]
    counts = check_against_torchvision(model, clear(model, name, images))
    assert set(counts) == {workload.get(name).outputs[0].shape[0]}
    assert len(counts) > 1


@pytest.mark.parametrize("name", TINY)
def test_pictures_without_objects_are_answered_with_zeros(name: str) -> None:
    with torch.no_grad():
        answers = built(name, 100)(batch_of(workload.get(name), 2, seed=3)[0])
    assert not any(answer.any() for answer in answers)


@pytest.mark.parametrize(
    ("network", "reference"),
    [
        pytest.param(
            lambda: ssd300.network(ssd300.FULL),
            lambda: detection.ssd300_vgg16(weights=None, weights_backbone=None, num_classes=21),
            id="ssd300",
        ),
        pytest.param(
            lambda: rcnn.network(faster_rcnn.FULL),
            lambda: detection.fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=21),
            id="faster_rcnn",
        ),
        pytest.param(
            lambda: rcnn.network(mask_rcnn.FULL),
            lambda: detection.MaskRCNN(
                resnet_fpn_backbone(backbone_name="resnet101", weights=None, norm_layer=torch.nn.BatchNorm2d), 81
            ),
            id="mask_rcnn",
        ),
        pytest.param(
            lambda: retinanet.network(retinanet.FULL),
            lambda: RetinaNet(
                resnet_fpn_backbone(
                    backbone_name="resnext50_32x4d",
                    weights=None,
                    norm_layer=torch.nn.BatchNorm2d,
                    returned_layers=[2, 3, 4],
                    extra_blocks=LastLevelP6P7(256, 256),
                ),
                264,
            ),
            id="retinanet",
        ),
    ],
)
def test_torchvisions_weights_load(network: Callable[[], torch.nn.Module], reference: Callable[[], Any]) -> None:
    with torch.device("meta"):
        theirs = {name: tensor.shape for name, tensor in reference().state_dict().items()}
    assert {name: tensor.shape for name, tensor in network().state_dict().items()} == theirs


def test_masks_are_pasted_as_torchvision_does() -> None:
    """Boxes of all sizes, some of them as wide as the picture, whose 96 x 64 pixels were 192 x 128 in the request."""
    rng = np.random.default_rng(0)
    corners = rng.uniform((0, 0), (150, 100), (40, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0, 80, (40, 2))], axis=1)
    boxes = np.minimum(boxes, [192, 128, 192, 128]).astype(np.float32)
    boxes[0] = 0, 0, 192, 128
    masks = rng.random((40, 28, 28)).astype(np.float32)
    outputs = {"boxes": boxes, "masks": masks, "num_detections": np.array([40])}
    found = blocks.in_picture(outputs, (96, 64), (192, 128))["masks"]
    whole = paste_masks_in_image(torch.from_numpy(masks)[:, None], torch.from_numpy(boxes) / 2, (64, 96))
    expected = (whole[:, 0] > 0.5).numpy()
    assert expected.any(axis=(1, 2)).sum() > 10
    np.testing.assert_array_equal(np.stack([encoding.decode(each) for each in found]), expected)


def test_a_mask_in_a_box_beyond_the_picture_takes_no_memory() -> None:
    boxes = np.array([[-1e30, 0, 1e9, 1e9], [-math.inf, 0, math.inf, math.inf]], np.float32)
    outputs = {"boxes": boxes, "masks": np.ones((2, 28, 28), np.float32), "num_detections": np.array([2])}
    found = blocks.in_picture(outputs, (40, 20), (400, 200))["masks"]
    assert [each["size"] for each in found] == [[20, 40]] * 2
    assert all(encoding.area(each) > 0.9 * 40 * 20 for each in found)


def coco(folder: Path, images: Any) -> Path:
    content = {"images": images, "annotations": []}
    write(folder / "annotations" / "instances_val2017.json", json.dumps(content))
    return folder


def voc(folder: Path, numbers: str) -> Path:
    write(folder / "VOCdevkit" / "VOC2007" / "ImageSets" / "Main" / "test.txt", numbers)
    return folder


def pictures(name: str, path: Path) -> list[Any]:
    return [request["image"] for request in read_requests(name, path)]


def test_coco_pictures_become_letterboxed_requests(tmp_path: Path) -> None:
    names = ["000000000139.jpg", "000000000285.jpg"]
    for name, (width, height) in zip(names, [(640, 480), (480, 640)], strict=True):
        write_picture(tmp_path / "val2017" / name, width, height)
    coco(tmp_path, [{"id": 1, "file_name": name} for name in names])
    wide, tall = pictures("mask_rcnn", tmp_path)
    red, green = (1 - 0.485) / 0.229, -0.456 / 0.224
    np.testing.assert_allclose(wide[:2, 766, 1022], [red, green], atol=0.02)
    assert not wide[:, 768:].any()
    np.testing.assert_allclose(tall[:2, 1022, 766], [red, green], atol=0.02)
    assert not tall[:, :, 768:].any()
    first, _ = pictures("ssd300_coco", tmp_path)
    np.testing.assert_allclose(first[:, 150, 150], [255 - 123, -117, -104], atol=2)


def test_voc_pictures_become_letterboxed_requests(tmp_path: Path) -> None:
    write_picture(tmp_path / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000001.jpg", 353, 500)
    (image,) = pictures("faster_rcnn", voc(tmp_path, "000001\n"))
    assert image[0, :, :560].all()
    assert not image[:, :, 565:].any()
    (stretched,) = pictures("ssd300", tmp_path)
    np.testing.assert_allclose(stretched[:, 150, 150], [255 - 123, -117, -104], atol=2)


def test_squares_keep_the_shorter_side() -> None:
    """A square's longer side is its shorter one: 800, not 1024."""
    sample = blocks.letterbox(Image.new("RGB", (100, 100), (255, 255, 255)), shorter=800, side=1024)
    assert sample["image"][:, :800, :800].all()
    assert not sample["image"][:, 800:].any()


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        ([{"id": 7}], r"images\[0\] has no `file_name`"),
        ([{"file_name": "../secret.jpg"}], r"images\[0\] has no `file_name`"),
        ([{"file_name": "1.jpg"}], r"1.jpg is not there; .*images\[0\]"),
        ([], "has no list of `images`"),
        ({}, "has no list of `images`"),
    ],
)
def test_damaged_coco_annotations_name_file_and_entry(tmp_path: Path, images: Any, reason: str) -> None:
    with pytest.raises(InputDataError, match=reason) as caught:
        list(coco2017.LAYOUT.pictures(coco(tmp_path, images)))
    assert "instances_val2017.json" in caught.value.what


def test_coco_annotations_that_are_no_json_name_the_line(tmp_path: Path) -> None:
    (coco(tmp_path, []) / "annotations" / "instances_val2017.json").write_text('{"images": [\n  {"id": 1,}\n]}')
    with pytest.raises(InputDataError, match=r"instances_val2017.json:2: no JSON"):
        list(coco2017.LAYOUT.pictures(tmp_path))
    with pytest.raises(InputDataError, match="cannot be read"):
        list(coco2017.LAYOUT.pictures(tmp_path / "elsewhere"))


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ("000001\n12\n", r"test.txt:2: '12' is not a picture's number"),
        ("000001\n000002\n", r"test.txt:2: .*000002.jpg is not there"),
        ("", r"test\.txt is empty"),
    ],
)
def test_damaged_voc_lists_name_file_and_line(tmp_path: Path, numbers: str, reason: str) -> None:
    write_picture(tmp_path / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000001.jpg", 40, 30)
    with pytest.raises(InputDataError, match=reason):
        list(voc2007.pictures(voc(tmp_path, numbers)))


def test_a_damaged_picture_is_named(tmp_path: Path) -> None:
    folder = voc(tmp_path, "000001\n")
    path = write_picture(folder / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000001.jpg", 40, 30)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputDataError, match=r"000001\.jpg is not a readable picture"):
        read_requests("faster_rcnn", folder)


@pytest.mark.parametrize(("label", "category"), [(1, 11), (2, 22), (0, 0), (3, 0), (-1, 0)])
def test_a_label_that_names_no_category_is_a_wrong_answer_and_no_error(label: int, category: int) -> None:
    assert blocks.counted_from_one(label, [11, 22]) == category
