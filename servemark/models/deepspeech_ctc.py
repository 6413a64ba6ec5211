"""DeepSpeech that answers log-probabilities: decoding, with a language model where there is one, is the client's.

The network is that of `deepspeech`. AI Matrix runs it so, in Mozilla's client, whose beam search asks a KenLM model.
Frames beyond the utterance are 0.
"""

from dataclasses import replace

from servemark.models import deepspeech
from servemark.workload import Variant

FULL, TINY = (replace(sizes, decoded=False) for sizes in (deepspeech.Sizes(), deepspeech.TINY))

WORKLOAD = deepspeech.recogniser(
    "deepspeech_ctc",
    "DeepSpeech, log-probabilities",
    suites=("AI Matrix, variant",),
    origin="The network of `deepspeech`, without the decoder. AI Matrix publishes seconds of both together.",
    # of 490 frames, of 371 and of 1,750
    full=Variant(
        FULL,
        parameters=122_748_957,
        flops=490 * 245_411_840,
        flops_without_padding=371 * 245_411_840,
        flops_longest=1750 * 245_411_840,
    ),
    # of 52 frames, of 47 and of 64
    tiny=Variant(
        TINY, parameters=153_629, flops=52 * 304_512, flops_without_padding=47 * 304_512, flops_longest=64 * 304_512
    ),
)
