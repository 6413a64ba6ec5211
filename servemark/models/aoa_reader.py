"""Attention-over-attention reader: which word was left out of a story's last sentence (HPC workload analysis).

Cui et al. 2017, "Attention-over-Attention Neural Networks for Reading Comprehension" (ACL), in the sizes that it gives
for the named entities of the Children's Book Test: embedding of 384, a GRU of 256 in each direction, one for the story
and one for the question. Each word of the question looks at the story; how much it counts is what the story looks at in
the question, on average. The answer is the candidate whose places in the story get most.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import cbt
from servemark.models.blocks.sequences import gru
from servemark.models.blocks.weights import glorot, seeded
from servemark.models.synthesis import text
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import (
    Agreement,
    Example,
    InOrder,
    LabelledSet,
    Module,
    Quality,
    Sample,
    Slo,
    Tensor,
    Variant,
    define,
)

MATCH_GAIN = 6.0
"""Spread of the matching scores: with less every place of the story gets the same attention."""
RECURRENT_GAIN = 2.0


@dataclass(frozen=True)
class Sizes:
    """Vocabulary, widths of embedding and of a GRU's direction, longest story and question, and candidates."""

    vocabulary: int = 53_063
    embedding: int = 384
    hidden: int = 256
    story: int = 1024
    question: int = 64
    candidates: int = 10


def network(sizes: Sizes) -> Module:
    """Define it: (doc [B, D], doc_len, query [B, Q], query_len, candidates [B, C]) -> scores [B, C], answer [B, 1].

    Scores are probabilities, of candidates that the story has. The answer is the place of the best candidate.
    """
    import torch
    from torch import nn

    class AoaReader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(sizes.vocabulary, sizes.embedding)
            self.story = nn.ModuleList(nn.GRUCell(sizes.embedding, sizes.hidden) for _ in range(2))  # there and back
            self.question = nn.ModuleList(nn.GRUCell(sizes.embedding, sizes.hidden) for _ in range(2))

        def forward(
            self,
            doc: torch.Tensor,
            doc_len: torch.Tensor,
            query: torch.Tensor,
            query_len: torch.Tensor,
            candidates: torch.Tensor,
        ) -> tuple[torch.Tensor, torch.Tensor]:
            no_story, no_question = text.beyond(doc, doc_len), text.beyond(query, query_len)
            story, _ = gru(self.story, self.embedding(doc.long()), no_story)
            question, _ = gru(self.question, self.embedding(query.long()), no_question)
            match = MATCH_GAIN * torch.bmm(story, question.transpose(1, 2))  # [B, D, Q]
            never = torch.finfo(match.dtype).min
            over_story = torch.softmax(match.masked_fill(no_story.unsqueeze(2), never), dim=1)
            over_question = torch.softmax(match.masked_fill(no_question.unsqueeze(1), never), dim=2)
            told = no_story.logical_not().unsqueeze(2).to(match.dtype)
            importance = (over_question * told).sum(dim=1) / told.sum(dim=1)  # [B, Q], the mean over the story
            attention = torch.bmm(over_story, importance.unsqueeze(2)).squeeze(2)  # [B, D]
            here = (doc.unsqueeze(1) == candidates.unsqueeze(2)) & no_story.logical_not().unsqueeze(1)  # [B, C, D]
            scores = torch.bmm(here.to(match.dtype), attention.unsqueeze(2)).squeeze(2)
            return scores, scores.argmax(dim=1, keepdim=True).int()

    return AoaReader()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that the answer depends on story and question."""
    with seeded(name):
        model = network(sizes)
        glorot(model, RECURRENT_GAIN)
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw stories of 433 words and questions of 32 on average, and ten words of the story to choose from."""
    words = Popularity.zipf(sizes.vocabulary - 1, first_id=1, **text.ENGLISH)
    stories = Lengths(433 / 1024 * sizes.story, 0.4, 2 * sizes.candidates, sizes.story)
    questions = Lengths(sizes.question / 2, 0.4, 3, sizes.question)
    while True:
        story = words.draw(rng, stories.draw(rng))
        different = np.unique(story)
        while len(different) < sizes.candidates:  # as rarely as a story of few words is drawn
            story = words.draw(rng, sizes.story)
            different = np.unique(story)
        candidates = rng.choice(different, sizes.candidates, replace=False)
        yield request(story, words.draw(rng, questions.draw(rng)), candidates, sizes)


def request(
    story: npt.NDArray[np.int32], question: npt.NDArray[np.int32], candidates: npt.NDArray[np.int32], sizes: Sizes
) -> Sample:
    """Pad story and question, or cut them."""
    doc, query = text.request(story, sizes.story), text.request(question, sizes.question)
    return {
        "doc": doc["src_ids"],
        "doc_len": doc["src_len"],
        "query": query["src_ids"],
        "query_len": query["src_len"],
        "candidates": candidates,
    }


def read(path: Path) -> Iterator[Sample]:
    """Read the test questions on named entities of the Children's Book Test.

    Raises InputDataError with file and line.
    """
    sizes = Sizes()
    for story, question, candidates in cbt.read(path, sizes.vocabulary):
        yield request(story, question, candidates, sizes)


def labelled(path: Path) -> LabelledSet:
    """The same with their answers. Raises InputDataError with file and line."""
    sizes = Sizes()
    questions = InOrder(lambda: cbt.answered(path, sizes.vocabulary))
    return LabelledSet.of(
        questions,
        lambda story, question, words, answer: Example((request(story, question, words, sizes),), answer),
    )


TINY = Sizes(vocabulary=200, embedding=16, hidden=16, story=60, question=8, candidates=5)

WORKLOAD = define(
    "aoa_reader",
    "Attention-over-attention reader",
    # of 1,024 words of story and 64 of question, and of 433 and 32
    full=Variant(Sizes(), parameters=22_348_416, flops=2_206_355_456, flops_without_padding=928_452_116),
    tiny=Variant(TINY, parameters=9_728, flops=450_072, flops_without_padding=185_026),  # of 60 and 8, and of 25 and 4
    task="question answering",
    suites=("HPC workload analysis",),
    inputs=lambda sizes: (
        Tensor("doc", "INT32", (sizes.story,)),
        Tensor("doc_len", "INT32", (1,)),
        Tensor("query", "INT32", (sizes.question,)),
        Tensor("query_len", "INT32", (1,)),
        Tensor("candidates", "INT32", (sizes.candidates,)),
    ),
    outputs=lambda sizes: (Tensor("scores", "FP32", (sizes.candidates,)), Tensor("answer", "INT32", (1,))),
    max_batch=32,
    slo=Slo(99, 50),
    quality=Quality("accuracy", 0.72, "Children's Book Test, named entities, 2,500 test questions"),
    citation="Cui et al. 2017, Attention-over-Attention Neural Networks, ACL (arXiv:1607.04423)",
    origin="The paper's sizes, with two encoders. The HPC workload analysis names model and data set, and no size. The "
    "target is the paper's.",
    locustfile="question_answering",
    build=build,
    samples=samples,
    dataset=cbt.KEY,
    read=read,
    labelled=labelled,
    agreement=Agreement(min_match=0.9),
)
