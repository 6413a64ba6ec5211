"""DeepSpeech that answers log-probabilities: decoding, with a language model where there is one, is the client's.

The network is that of `deepspeech`. AI Matrix runs it so, in Mozilla's client, whose beam search asks a KenLM model.
Frames beyond the utterance are 0.
"""

from dataclasses import replace

from servemark.models import deepspeech

FULL, TINY = (replace(sizes, decoded=False) for sizes in (deepspeech.Sizes(), deepspeech.TINY))

WORKLOAD = deepspeech.recogniser(
    "deepspeech_ctc",
    "DeepSpeech, log-probabilities",
    suites=("AI Matrix, variant",),
    origin="The network of `deepspeech`, without the decoder. AI Matrix publishes seconds of both together.",
    full=FULL,
    tiny=TINY,
    parameters=(122_748_957, 153_629),
    step_flops=(245_411_840, 304_512),
)
