"""ENAS: a language model on the recurrent cell that a search found (AIBench DC-AI-C17).

Pham et al. 2018, "Efficient Neural Architecture Search via Parameter Sharing" (ICML), Figure 6: the cell of 12 nodes,
as fixed in the authors' final training script. With the width of 1,000 that this suite sets (the script has 748) it is
served in scoring form: the log-probability of each next token, and the state to send with the next window. The exported
graph runs the 35 steps as one Scan: unrolled, ONNX Runtime would pack the cell's 104 MB of weights 35 times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servemark.datasets import ptb
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis import text
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

ARC = (
    (0, "tanh"), (1, "relu"), (2, "relu"), (2, "tanh"), (2, "tanh"), (5, "relu"),
    (1, "tanh"), (6, "relu"), (8, "relu"), (8, "relu"), (8, "relu"),
)  # fmt: skip
"""Of nodes 1 to 11: the node each takes its input from, and its activation. Node 0 (tanh) takes token and state."""
LOOSE_ENDS = (3, 4, 7, 9, 10, 11)
"""Nodes that no other takes; the new state is their mean."""

EOS = 0  # as in the data set, where the end of the sentence is among the most frequent words
NEW_SEQUENCES = 1 / 20
"""Share of requests that begin a text, with a state of zeros."""
STATE_STD = 0.12
"""Spread of the states that the model returns, measured on these requests."""
EMBEDDING_STD, GAIN = 0.25, 2.2
"""With more gain the ReLU nodes feed on themselves and the state grows without bound."""


@dataclass(frozen=True)
class Sizes:
    """Vocabulary, width of embedding and state, and tokens of one window."""

    vocabulary: int = ptb.VOCABULARY
    width: int = 1000
    length: int = 35


def network(sizes: Sizes) -> Module:
    """Define the model: (ids, targets [B, T], state [B, H]) -> (logprobs [B, T] of the targets, state [B, H])."""
    import torch
    from torch import nn
    from torch._higher_order_ops.scan import scan

    width = sizes.width

    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(2 * width, 2 * width, bias=False)
            self.nodes = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in ARC)

        def forward(self, token: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            """Compute the next state [B, H] from an embedded token [B, H] and the state [B, H]."""
            outputs = [highway(state, self.first(torch.cat([token, state], dim=1)), "tanh")]
            for (source, activation), layer in zip(ARC, self.nodes, strict=True):
                outputs.append(highway(outputs[source], layer(outputs[source]), activation))
            return torch.stack([outputs[node] for node in LOOSE_ENDS]).mean(dim=0)

    def highway(carried: torch.Tensor, gates: torch.Tensor, activation: str) -> torch.Tensor:
        candidate, transform = gates.chunk(2, dim=1)
        candidate = torch.tanh(candidate) if activation == "tanh" else torch.relu(candidate)
        return carried + torch.sigmoid(transform) * (candidate - carried)

    class Enas(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(sizes.vocabulary, width)
            self.cell = Cell()

        def forward(
            self, ids: torch.Tensor, targets: torch.Tensor, state: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            torch._check(targets.shape[0] == ids.shape[0])  # gather alone would take fewer targets
            tokens = self.embedding(ids.long()).transpose(0, 1)  # [T, B, H]
            states, last = self.scan(tokens, state) if torch.compiler.is_exporting() else self.loop(tokens, state)
            logits = states.transpose(0, 1) @ self.embedding.weight.t()  # tied, [B, T, V]
            logprobs = torch.log_softmax(logits, dim=2).gather(2, targets.long().unsqueeze(2))
            return logprobs.squeeze(2), last

        def loop(self, tokens: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """Run the cell over the tokens: (states [T, B, H], the last [B, H])."""
            states = []
            for token in tokens:
                state = self.cell(token, state)
                states.append(state)
            return torch.stack(states), state

        def scan(self, tokens: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """Do the same as one Scan in the exported graph."""

            def step(state: torch.Tensor, token: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                state = self.cell(token, state)
                return state, state.clone()  # the two may not share memory

            last, states = scan(step, state, tokens)
            return states, last

    return Enas()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, wide enough that the log-probabilities differ by token and remember the state.

    The authors' U(-0.04, 0.04) is for training: untrained, every token then has nearly the same probability.
    """
    from torch import nn

    with seeded(name):
        model = network(sizes)
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=GAIN / module.in_features**0.5)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=EMBEDDING_STD)
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw windows of text: words by their frequency in English, sentences of 21 words on average as in Penn Treebank.

    A numpy generator cannot run the model to get at a state that it would return; it draws one of the same spread.
    """
    frequency = Popularity.zipf(sizes.vocabulary - 1, s=1.05, q=2.7, first_id=EOS + 1)
    sentences = Lengths(21, 0.5, 3, 60)
    for tokens in text.windows(rng, frequency, sentences, sizes.length + 1, EOS):
        fresh = rng.random() < NEW_SEQUENCES
        state = np.float32(0 if fresh else STATE_STD) * rng.standard_normal(sizes.width, dtype=np.float32)
        yield {"ids": tokens[:-1], "targets": tokens[1:], "state": state}


def labelled(path: Path) -> LabelledSet:
    """Make one request of each window of Penn Treebank's test text, each with a state of zeros.

    The state that the window before would leave is not known ahead of the run; without it a perplexity is higher.
    Raises InputDataError.
    """
    sizes = Sizes()
    state = {"state": np.zeros(sizes.width, np.float32)}
    windows = list(ptb.read(path, length=sizes.length))
    return LabelledSet.of(windows, lambda ids, after: Example(({"ids": ids, "targets": after, **state},), len(after)))


WORKLOAD = define(
    "enas",
    "ENAS recurrent cell, language model",
    full=Variant(Sizes(), parameters=36_000_000, flops=35 * 72_000_000),
    tiny=Variant(Sizes(vocabulary=100, width=16, length=8), parameters=8_256, flops=132_096),
    task="language modelling",
    suites=("AIBench DC-AI-C17",),
    inputs=lambda sizes: (
        Tensor("ids", "INT32", (sizes.length,)),
        Tensor("targets", "INT32", (sizes.length,)),
        Tensor("state", "FP32", (sizes.width,)),
    ),
    outputs=lambda sizes: (Tensor("logprobs", "FP32", (sizes.length,)), Tensor("state_out", "FP32", (sizes.width,))),
    max_batch=64,
    slo=Slo(99, 100),
    quality=Quality("perplexity", 100, "Penn Treebank test text (Mikolov's split), state carried along"),
    citation="Pham et al. 2018, Efficient Neural Architecture Search, ICML (arXiv:1802.03268)",
    origin="The paper's cell; the width of 1,000 is that of the PyTorch port carpedm20/ENAS-pytorch, the authors' "
    "script has 748. AIBench publishes no code for it, and measures the search; 100 is its perplexity.",
    locustfile="language_model",
    build=build,
    samples=samples,
    dataset=ptb.KEY,
    labelled=labelled,
)
