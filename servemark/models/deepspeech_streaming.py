"""DeepSpeech with one recurrence that only looks back, as it comes in while somebody speaks: Mozilla's from 0.2 on.

Hannun et al. 2014, "Deep Speech: Scaling up end-to-end speech recognition", in the form of Mozilla DeepSpeech 0.2:
three dense layers of 2048 units over 19 frames, an LSTM of 2048 units forwards in time, two dense layers. The source of
0.2 lies in AI Matrix's repository beside the model of 0.1.1 that it runs, which is `deepspeech`. A request is a whole
utterance: no state is kept between requests.
"""

from dataclasses import replace

from servemark.models import deepspeech
from servemark.workload import Variant

FULL, TINY = (replace(sizes, bidirectional=False) for sizes in (deepspeech.Sizes(), deepspeech.TINY))

WORKLOAD = deepspeech.recogniser(
    "deepspeech_streaming",
    "DeepSpeech, forwards only",
    suites=("AI Matrix, variant",),
    origin="Mozilla DeepSpeech 0.2 to 0.9, which AI Matrix carries as source and does not run.",
    # of 490 frames, of 371 and of 1,750
    full=Variant(
        FULL,
        parameters=47_233_053,
        flops=490 * 94_416_896,
        flops_without_padding=371 * 94_416_896,
        flops_longest=1750 * 94_416_896,
    ),
    # of 52 frames, of 47 and of 64
    tiny=Variant(
        TINY, parameters=79_325, flops=52 * 157_056, flops_without_padding=47 * 157_056, flops_longest=64 * 157_056
    ),
)
