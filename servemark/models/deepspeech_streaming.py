"""DeepSpeech with one recurrence that only looks back, as it comes in while somebody speaks: Mozilla's from 0.2 on.

Hannun et al. 2014, "Deep Speech: Scaling up end-to-end speech recognition", in the form of Mozilla DeepSpeech 0.2:
three dense layers of 2048 units over 19 frames, an LSTM of 2048 units forwards in time, two dense layers. The source of
0.2 lies in AI Matrix's repository beside the model of 0.1.1 that it runs, which is `deepspeech`. A request is a whole
utterance: no state is kept between requests.
"""

from dataclasses import replace

from servemark.models import deepspeech

FULL, TINY = (replace(sizes, bidirectional=False) for sizes in (deepspeech.Sizes(), deepspeech.TINY))

WORKLOAD = deepspeech.recogniser(
    "deepspeech_streaming",
    "DeepSpeech, forwards only",
    suites=("AI Matrix, variant",),
    origin="Mozilla DeepSpeech 0.2 to 0.9, which AI Matrix carries as source and does not run.",
    full=FULL,
    tiny=TINY,
    parameters=(47_233_053, 79_325),
    step_flops=(94_416_896, 157_056),
)
