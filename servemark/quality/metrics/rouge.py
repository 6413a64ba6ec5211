"""ROUGE-L of summaries: the longest common subsequence of words (Lin 2004), by torchmetrics."""

from typing import Any

from servemark.quality.metric import Means


class RougeL(Means):
    """Predictions and labels are texts. F1, precision and recall of stemmed words, as means over examples times 100."""

    figures = ("ROUGE-L", "ROUGE-L precision", "ROUGE-L recall")

    def scores(self, prediction: Any, label: str) -> tuple[float, ...]:
        from torchmetrics.functional.text.rouge import rouge_score

        if not label.strip():
            raise ValueError("its headline is empty")
        found = rouge_score(str(prediction), label, rouge_keys="rougeL", use_stemmer=True)
        return tuple(100 * float(found[f"rougeL_{kind}"]) for kind in ("fmeasure", "precision", "recall"))


METRICS = (RougeL(),)
