"""Word error rate of speech recognition: substitutions, deletions and insertions over the words that were said."""

from collections.abc import Sequence
from typing import Any

from servemark.quality.metric import Floats, Row, Summed


class WordErrorRate(Summed):
    """Predictions and labels are texts; case and runs of spaces do not count. CER is the same of characters (jiwer)."""

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


METRICS = (WordErrorRate(),)
