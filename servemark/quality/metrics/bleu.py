"""BLEU of translations: Papineni et al. 2002; Post 2018, "A Call for Clarity in Reporting BLEU Scores" (sacrebleu)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from servemark.quality.metric import Floats, Row, Summed

ORDERS = 4


class Bleu(Summed):
    """Predictions and labels are sentences of tokens with spaces between; BLEU is of the whole set, from 0 to 100.

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


METRICS = (Bleu(),)
