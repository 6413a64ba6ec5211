"""The tiny variants, as the tests over the registry take them: a workload may have none."""

from typing import Any

import pytest

from servemark.workload import Workload, workloads

NONE = "{} declares no tiny variant"
LIKE_ANOTHER = {
    "face3d", "facenet", "faster_rcnn", "faster_rcnn_c4", "fcn8s", "googlenet", "googlenet_lrn", "image_caption_im2txt",
    "nmt", "resnet152", "resnet50_v1", "retinanet", "vgg16_cifar",
}  # fmt: skip
"""Networks made of the parts of others, as faster_rcnn is of mask_rcnn's, which take seconds to export, whatever their
size. They are exported in the slow suite; as networks they are tested like all others."""


def tiny_of(name: str) -> Workload:
    """The tiny variant of a workload; the test is skipped where it has none."""
    tiny = workloads()[name].tiny
    if tiny is None:
        pytest.skip(NONE.format(name))
    return tiny


def tiny_names() -> list[str]:
    """The names of the tiny variants that there are."""
    return [workload.tiny.name for workload in workloads().values() if workload.tiny is not None]


def exported_names() -> list[Any]:
    """The same as parameters of tests that need an export."""
    slow = {f"{name}_tiny" for name in LIKE_ANOTHER}
    return [pytest.param(name, marks=pytest.mark.slow if name in slow else []) for name in tiny_names()]


def no_tiny(name: str) -> list[pytest.MarkDecorator]:
    """The mark of a test that needs the tiny variant of a workload."""
    return [] if workloads()[name].tiny else [pytest.mark.skip(reason=NONE.format(name))]
