"""Text against references: BLEU, ROUGE-L, word error rate, accuracy of tokens, and perplexity of a language model."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from servemark.quality.metrics import Floats, Means, Row, Summed

ORDERS = 4


class Bleu(Summed):
    """BLEU of translations: Papineni et al. 2002; Post 2018, "A Call for Clarity in Reporting BLEU Scores" (sacrebleu).

    Predictions and labels are sentences of tokens with spaces between; BLEU is of the whole set, from 0 to 100.

    It is sacrebleu's with `tokenize="none"`, because the data sets are tokenized, and with its default smoothing
    (`smooth:exp`). multi-bleu.perl gives the same, but 0 where no sequence of four tokens is right: it does not smooth.
    """

    figures = ("BLEU",)

    @cached_property
    def _scorer(self) -> Any:
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize="none", effective_order=True)

    def row(self, predictions: Sequence[Any], label: str) -> Row:
        found = self._scorer.sentence_score(str(predictions[0]), [label])
        return [*found.counts, *found.totals, found.sys_len, found.ref_len]

    def wrong(self, label: str) -> Row:
        return self.row([""], label)

    def combine(self, sums: Floats) -> tuple[float, ...]:
        from sacrebleu.metrics.bleu import BLEU

        whole = [int(total) for total in sums]
        score = BLEU.compute_bleu(
            correct=whole[:ORDERS],
            total=whole[ORDERS : 2 * ORDERS],
            sys_len=whole[-2],
            ref_len=whole[-1],
            smooth_method="exp",
        )
        return (float(score.score),)


class RougeL(Means):
    """ROUGE-L of summaries: the longest common subsequence of words (Lin 2004), by torchmetrics.

    Predictions and labels are texts. F1, precision and recall of stemmed words, as means over examples times 100.
    """

    figures = ("ROUGE-L", "ROUGE-L precision", "ROUGE-L recall")

    def scores(self, prediction: Any, label: str) -> tuple[float, ...]:
        from torchmetrics.functional.text.rouge import rouge_score

        if not label.strip():
            raise ValueError("its headline is empty")
        found = rouge_score(str(prediction), label, rouge_keys="rougeL", use_stemmer=True)
        return tuple(100 * float(found[f"rougeL_{kind}"]) for kind in ("fmeasure", "precision", "recall"))


class WordErrorRate(Summed):
    """Substitutions, deletions and insertions over the words that were said.

    Predictions and labels are texts; case and runs of spaces do not count. CER is the same of characters (jiwer).
    """

    figures = ("WER", "CER")
    higher_is_better = False

    def row(self, predictions: Sequence[Any], label: str) -> Row:
        import jiwer

        said, heard = _normal(label), _normal(str(predictions[0]))
        if not said:
            raise ValueError("its transcript is empty")
        words, letters = jiwer.process_words(said, heard), jiwer.process_characters(said, heard)
        counts = [(each.substitutions + each.deletions + each.insertions) for each in (words, letters)]
        return [counts[0], len(said.split()), counts[1], len(said)]

    def wrong(self, label: str) -> Row:
        return self.row([""], label)

    def combine(self, sums: Floats) -> tuple[float, ...]:
        return float(sums[0] / sums[1]), float(sums[2] / sums[3])


def _normal(text: str) -> str:
    return " ".join(text.lower().split())


class TokenAccuracy(Summed):
    """The share of the reference's tokens that stand at the same place of the answer.

    Predictions and labels are sequences of ids; `exact` is the share of sequences that are equal.

    A served model continues its own words. Accuracies that are published of training continue the reference's.
    """

    figures = ("token accuracy", "exact")

    def row(self, predictions: Sequence[Any], label: Sequence[int]) -> Row:
        answered, right = [int(token) for token in predictions[0]], [int(token) for token in label]
        if not right:
            raise ValueError("its reference has no tokens")
        equal = sum(a == b for a, b in zip(answered, right, strict=False))
        return [equal, len(right), int(answered == right), 1]

    def wrong(self, label: Sequence[int]) -> Row:
        return [0, len(label), 0, 1]

    def combine(self, sums: Floats) -> tuple[float, ...]:
        return float(sums[0] / sums[1]), float(sums[2] / sums[3])


LEAST = math.log(np.finfo(np.float32).tiny)
"""About -87.3: the logarithm of the smallest probability."""


class Perplexity(Summed):
    """e to the mean negative logarithm of what a language model gave to the words that came.

    Predictions are natural logarithms of probabilities, one for each token that came; labels are how many count.
    Where nothing was answered, each token counts as unlikely as float32 can say.
    """

    figures = ("perplexity", "bits per token")
    higher_is_better = False

    def row(self, predictions: Sequence[Any], label: int) -> Row:
        logarithms = np.asarray(predictions[0], np.float64).reshape(-1)
        if not 0 < label <= len(logarithms):
            raise ValueError(f"{label} tokens of {len(logarithms)} answered ones cannot count")
        return [-float(logarithms[:label].sum()), int(label)]

    def wrong(self, label: int) -> Row:
        return [-LEAST * int(label), int(label)]

    def combine(self, sums: Floats) -> tuple[float, ...]:
        mean = float(sums[0] / sums[1])
        return float(np.exp(mean)), mean / float(np.log(2))


METRICS = (Bleu(), RougeL(), WordErrorRate(), TokenAccuracy(), Perplexity())
