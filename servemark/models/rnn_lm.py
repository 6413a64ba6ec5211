"""RNN language model: the next word of Wikipedia's text (HPC workload analysis).

An LSTM of two layers, as in PyTorch's word_language_model example with the sizes that its page gives for WikiText-2:
650 units of embedding and of each layer, nothing tied. That follows Zaremba, Sutskever & Vinyals 2014, "Recurrent
Neural Network Regularization". It is served in scoring form: the log-probability of each next word, and the state to
send with the next window of 35.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servemark.datasets import wikitext2
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis import text
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

LAYERS = 2
GAIN = 3.0
"""Of the recurrent weights: with less the state forgets the text."""
LOGIT_DEVIATION = 4.0
STATE_STD = (0.3, 0.7)
"""Spread of the states h and c that the model returns, measured on these requests."""
NEW_SEQUENCES = 1 / 20
"""Share of requests that begin a text, with a state of zeros."""


@dataclass(frozen=True)
class Sizes:
    """Vocabulary, width of embedding and layers, and words of one window."""

    vocabulary: int = wikitext2.VOCABULARY
    width: int = 650
    length: int = 35


def network(sizes: Sizes) -> Module:
    """Define it: (ids, targets [B, T], h, c [B, 2, W]) -> (logprobs [B, T] of the targets, h, c [B, 2, W])."""
    import torch
    from torch import nn

    width = sizes.width

    class RnnLm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(sizes.vocabulary, width)
            self.lstm = nn.LSTM(width, width, LAYERS, batch_first=True)
            self.output = nn.Linear(width, sizes.vocabulary)

        def forward(
            self, ids: torch.Tensor, targets: torch.Tensor, h: torch.Tensor, c: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            torch._check(targets.shape[0] == ids.shape[0])  # gather alone would take fewer targets
            state = h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous()
            hidden, (h, c) = self.lstm(self.embedding(ids.long()), state)
            logprobs = torch.log_softmax(self.output(hidden), dim=2).gather(2, targets.long().unsqueeze(2))
            return logprobs.squeeze(2), h.transpose(0, 1), c.transpose(0, 1)

    return RnnLm()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, wide enough that the log-probabilities differ by word and remember the state."""
    from torch import nn

    with seeded(name):
        model = network(sizes)
        for key, weight in model.named_parameters():
            if key.startswith("lstm.weight"):
                nn.init.normal_(weight, std=GAIN / sizes.width**0.5)
            elif key.endswith("bias") or "bias_" in key:
                nn.init.zeros_(weight)
        nn.init.normal_(model.get_parameter("output.weight"), std=LOGIT_DEVIATION / sizes.width**0.5)
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw windows of text: words by their frequency in English, a sentence's end after 21 of them on average.

    A numpy generator cannot run the model to get at a state that it would return; it draws one of the same spread.
    """
    words = Popularity.zipf(sizes.vocabulary - 1, first_id=wikitext2.END_ID + 1, **text.ENGLISH)
    for tokens in text.windows(rng, words, Lengths(21, 0.5, 3, 60), sizes.length + 1, wikitext2.END_ID):
        spread = np.array(STATE_STD, np.float32) * (rng.random() >= NEW_SEQUENCES)
        h, c = spread[:, None, None] * rng.standard_normal((2, LAYERS, sizes.width), dtype=np.float32)
        yield {"ids": tokens[:-1], "targets": tokens[1:], "h": np.clip(h, -1, 1), "c": c}


def labelled(path: Path) -> LabelledSet:
    """Make one request of each window of WikiText-2's test text, each with a state of zeros.

    The state that the window before would leave is not known ahead of the run; without it a perplexity is higher.
    Raises InputDataError.
    """
    sizes = Sizes()
    state = dict.fromkeys(("h", "c"), np.zeros((LAYERS, sizes.width), np.float32))
    windows = list(wikitext2.read(path, length=sizes.length))
    return LabelledSet.of(windows, lambda ids, after: Example(({"ids": ids, "targets": after, **state},), len(after)))


def _states(sizes: Sizes, suffix: str) -> tuple[Tensor, ...]:
    return tuple(Tensor(f"{name}{suffix}", "FP32", (LAYERS, sizes.width)) for name in ("h", "c"))


WORKLOAD = define(
    "rnn_lm",
    "LSTM language model",
    full=Variant(Sizes(), parameters=50_065_078, flops=35 * 56_781_400),
    tiny=Variant(Sizes(vocabulary=100, width=16, length=8), parameters=7_652, flops=8 * 11_392),
    task="language modelling",
    suites=("HPC workload analysis",),
    inputs=lambda sizes: (
        Tensor("ids", "INT32", (sizes.length,)),
        Tensor("targets", "INT32", (sizes.length,)),
        *_states(sizes, ""),
    ),
    outputs=lambda sizes: (Tensor("logprobs", "FP32", (sizes.length,)), *_states(sizes, "_out")),
    max_batch=64,
    slo=Slo(99, 100),
    quality=Quality("perplexity", None, "WikiText-2 test text, state carried along"),
    citation="Zaremba et al. 2014, Recurrent Neural Network Regularization (arXiv:1409.2329)",
    origin="PyTorch's example, whose data set the HPC workload analysis names. It gives no sizes and no figure.",
    locustfile="language_model",
    build=build,
    samples=samples,
    dataset=wikitext2.KEY,
    labelled=labelled,
)
