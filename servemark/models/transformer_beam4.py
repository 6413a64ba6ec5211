"""Transformer (base) decoded with beam 4 and length penalty 0.6, as in the paper (section 6.1); see `transformer`.

Each beam is a row of its own, so a word is four times the work. AIBench's TensorFlow code decodes in this way.
"""

from dataclasses import replace

from servemark.models import transformer
from servemark.workload import Variant

FULL = replace(transformer.Sizes(), beams=4, length_penalty=0.6)

WORKLOAD = transformer.translator(
    "transformer_beam4",
    "Transformer (base), beam 4",
    suites=("AIBench DC-AI-C3, variant",),
    origin="The paper's base model and search, as AIBench's TensorFlow code has it, with 32,000 subwords there.",
    # of 64 words in and 27 out, of 27 in and out and of 64, all beams
    full=Variant(
        FULL,
        parameters=63_082_496,
        flops=11_887_017_984,
        flops_without_padding=10_100_699_136,
        flops_longest=24_245_174_272,
    ),
)
