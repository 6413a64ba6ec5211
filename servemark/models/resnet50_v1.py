"""ResNet-50 as its paper and AI Matrix's Caffe network have it: the stride sits on the first 1x1 convolution.

He et al. 2016, "Deep Residual Learning for Image Recognition" (CVPR), table 1: 3.8 G multiply-adds. Beside that,
torchvision's network as in `resnet50`, whose parameters it has. Caffe's has a bias before the first BatchNorm and pools
without padding.
"""

from servemark.models.blocks import resnet
from servemark.models.blocks.classification import classification
from servemark.workload import Variant

FULL = resnet.Sizes(blocks=(3, 4, 6, 3), stride_first=True)
TINY = resnet.Sizes(blocks=(1, 1, 1, 1), width=8, classes=10, side=32, stride_first=True)

WORKLOAD = classification(
    "resnet50_v1",
    "ResNet-50, stride on the 1x1",
    resnet.CITATION,
    full=Variant(FULL, parameters=25_557_032, flops=7_715_946_496),
    tiny=Variant(TINY, parameters=130_962, flops=1_319_936),
    origin="The paper's place of the stride, which AI Matrix's Caffe network has too. AI Matrix's 74.38 % top-1 is of "
    "TensorFlow's.",
    slo_ms=15,
    network=resnet.network,
    suites=("AI Matrix, variant",),
)
