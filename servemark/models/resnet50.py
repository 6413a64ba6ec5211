"""ResNet-50: image classification (AI Matrix; AIBench DC-AI-C1; MLPerf Inference)."""

from servemark.models.blocks import resnet
from servemark.models.blocks.classification import classification
from servemark.workload import Variant

WORKLOAD = classification(
    "resnet50",
    "ResNet-50",
    resnet.CITATION,
    full=Variant(resnet.Sizes(blocks=(3, 4, 6, 3)), parameters=25_557_032, flops=8_178_368_512),
    tiny=Variant(resnet.Sizes(blocks=(1, 1, 1, 1), width=8, classes=10, side=32), parameters=130_962, flops=1_467_392),
    origin="torchvision's v1.5, with the stride on the 3x3, which AIBench's code runs too. AI Matrix's Caffe network "
    "has it on the 1x1: 3.86 instead of 4.09 G multiply-adds (`resnet50_v1`). 74.9 % is AIBench's target; AI Matrix's "
    "74.38 % is of TensorFlow's.",
    slo_ms=15,
    network=resnet.network,
    suites=("AI Matrix", "AIBench DC-AI-C1", "MLPerf Inference v6.0"),
    top1=0.749,
)
