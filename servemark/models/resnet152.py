"""ResNet-152: image classification (AI Matrix)."""

from functools import partial

from servemark.models.blocks import resnet
from servemark.models.blocks.classification import classification, samples, seeded_classifier
from servemark.workload import Workload

FULL = resnet.Sizes(blocks=(3, 8, 36, 3))
TINY = resnet.Sizes(blocks=(1, 2, 3, 1), width=8, classes=10, side=32)


def _workload(name: str, sizes: resnet.Sizes, *, parameters: int, flops: int, tiny: Workload | None = None) -> Workload:
    return classification(
        name,
        "ResNet-152",
        resnet.CITATION,
        side=sizes.side,
        classes=sizes.classes,
        parameters=parameters,
        flops=flops,
        slo_ms=30,
        build=lambda: seeded_classifier(name, partial(resnet.network, sizes), partial(samples, sizes.side)),
        tiny=tiny,
    )


WORKLOAD = _workload(
    "resnet152",
    FULL,
    parameters=60_192_808,
    flops=23_027_253_248,
    tiny=_workload("resnet152_tiny", TINY, parameters=171_090, flops=1_885_184),
)
