"""Neural machine translation decoded greedily, the default of the code that AI Matrix runs; see `nmt`."""

from dataclasses import replace

from servemark.models.nmt import FULL, TINY, translator

WORKLOAD = translator(
    "nmt_greedy",
    "GNMT, greedy",
    replace(FULL, beams=1, length_penalty=0.0),
    parameters=197_928_961,
    flops=7_112_724_480,  # of 27 words in and out
    tiny=translator(
        "nmt_greedy_tiny",
        "GNMT, greedy, tiny",
        replace(TINY, beams=1, length_penalty=0.0),
        parameters=117_825,
        flops=823_296,  # of 4 words in and out
    ),
)
