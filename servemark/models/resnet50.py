"""ResNet-50: image classification (AI Matrix; AIBench DC-AI-C1; MLPerf Inference)."""

from functools import partial

from servemark.models.blocks import resnet
from servemark.models.blocks.classification import classification, samples, seeded_classifier
from servemark.workload import Variant

WORKLOAD = classification(
    "resnet50",
    "ResNet-50",
    resnet.CITATION,
    full=Variant(resnet.Sizes(blocks=(3, 4, 6, 3)), parameters=25_557_032, flops=8_178_368_512),
    tiny=Variant(resnet.Sizes(blocks=(1, 1, 1, 1), width=8, classes=10, side=32), parameters=130_962, flops=1_467_392),
    slo_ms=15,
    build=lambda name, sizes: seeded_classifier(name, partial(resnet.network, sizes), partial(samples, sizes.side)),
    suites=("AI Matrix", "AIBench DC-AI-C1"),
    top1=0.749,
)
