"""ResNet-152: image classification (AI Matrix)."""

from servemark.models.blocks import resnet
from servemark.models.blocks.classification import classification
from servemark.workload import Variant

WORKLOAD = classification(
    "resnet152",
    "ResNet-152",
    resnet.CITATION,
    full=Variant(resnet.Sizes(blocks=(3, 8, 36, 3)), parameters=60_192_808, flops=23_027_253_248),
    tiny=Variant(resnet.Sizes(blocks=(1, 2, 3, 1), width=8, classes=10, side=32), parameters=171_090, flops=1_885_184),
    origin="torchvision's v1.5, with the stride on the 3x3. AI Matrix's Caffe network has it on the 1x1, which is "
    "less work; its 75.93 % top-1 is of TensorFlow's.",
    slo_ms=30,
    network=resnet.network,
)
