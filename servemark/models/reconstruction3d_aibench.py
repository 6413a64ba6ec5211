"""Perspective Transformer Nets in the sizes of AIBench's TensorFlow code (AIBench DC-AI-C13); see `reconstruction3d`.

Its decoder begins with 4 x 4 x 4 cells of 512 and doubles the side three times, with TensorFlow's SAME padding. Where
that pads an odd number, PyTorch's transposed convolution pads the other side, which shifts a volume by one voxel.
"""

from servemark.models import reconstruction3d
from servemark.models.reconstruction3d import Sizes
from servemark.workload import Variant

WORKLOAD = reconstruction3d.reconstructor(
    "reconstruction3d_aibench",
    reconstruction3d.TITLE,
    suites=("AIBench DC-AI-C13, variant",),
    origin="The sizes of AIBench's TensorFlow code. 45.83 % IoU is the report's, which does not say of which code.",
    full=Variant(Sizes(cells=4), parameters=47_673_569, flops=4_679_139_328),
)
