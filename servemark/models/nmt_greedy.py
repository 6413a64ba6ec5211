"""Neural machine translation decoded greedily, the default of the code that AI Matrix runs; see `nmt`."""

from dataclasses import replace

from servemark.models import nmt
from servemark.workload import Variant

FULL, TINY = (replace(sizes, beams=1, length_penalty=0.0) for sizes in (nmt.FULL, nmt.TINY))

WORKLOAD = nmt.translator(
    "nmt_greedy",
    "GNMT, greedy",
    origin="tensorflow/nmt's GNMT as its inference runs where no mode is set, as in AI Matrix's script.",
    # of 50 words in and 27 out, of 27 in and out and of 50
    full=Variant(
        FULL,
        parameters=197_928_961,
        flops=9_285_820_416,
        flops_without_padding=7_112_724_480,
        flops_longest=13_176_422_400,
    ),
    # of 8 words in and 4 out, of 4 in and out and of 8
    tiny=Variant(TINY, parameters=117_825, flops=1_193_984, flops_without_padding=823_296, flops_longest=1_650_688),
)
