"""ResNet-50: image classification (AI Matrix; AIBench DC-AI-C1; MLPerf Inference)."""

from functools import partial

from servemark.models.blocks import resnet
from servemark.models.blocks.classification import classification, samples, seeded_classifier
from servemark.workload import Workload

FULL = resnet.Sizes(blocks=(3, 4, 6, 3))
TINY = resnet.Sizes(blocks=(1, 1, 1, 1), width=8, classes=10, side=32)


def _workload(name: str, sizes: resnet.Sizes, *, parameters: int, flops: int, tiny: Workload | None = None) -> Workload:
    return classification(
        name,
        "ResNet-50",
        resnet.CITATION,
        side=sizes.side,
        classes=sizes.classes,
        parameters=parameters,
        flops=flops,
        slo_ms=15,
        build=lambda: seeded_classifier(name, partial(resnet.network, sizes), partial(samples, sizes.side)),
        suites=("AI Matrix", "AIBench DC-AI-C1"),
        top1=0.749,
        tiny=tiny,
    )


WORKLOAD = _workload(
    "resnet50",
    FULL,
    parameters=25_557_032,
    flops=8_178_368_512,
    tiny=_workload("resnet50_tiny", TINY, parameters=130_962, flops=1_467_392),
)
