"""Wording of every report: how outputs agree, a search's answer, and numbers as a reader takes them in."""

from collections.abc import Sequence

from servemark.results.schema.comparison import ComparisonRow, RowAgreement
from servemark.results.schema.run import MaxRateSearch, OutputAgreement, Result
from servemark.stats.histogram import Latency

RANDOM_WEIGHTS = "random weights: agreement with fp32, no accuracy"


def answer(found: MaxRateSearch, slo: str) -> str:
    """Format the outcome of a search for the highest rate in one sentence."""
    rate = "none" if found["rate"] is None else f"{found['rate']:,.4g} requests/s"
    low, high = found.get("ci95") or (None, None)
    interval = f" (95 % interval {low:,.4g} to {high:,.4g})" if low is not None and high is not None else ""
    least = "at least " if interval == "" and low is not None else ""
    return f"highest rate with {slo}: {least}{rate}{interval}; {found['reason'].removeprefix('at least: ')}"


def agreement_words(found: OutputAgreement | RowAgreement) -> str:
    """Format the agreement, with the limit of a reduced precision: "cosine 0.9760 (at least 0.9), top-1 8 of 16"."""
    tolerance = found.get("tolerance") or {}
    parts = []
    if "min_cosine" in tolerance and found["cosine_min"] is not None:
        parts.append(f"cosine {found['cosine_min']:.4f} (at least {tolerance['min_cosine']:g})")
    elif found["max_abs_error"] is not None:
        parts.append(f"max error {found['max_abs_error']:.2g}")
    # Results of earlier versions do not count samples.
    share = found["top1_agreement"] or 0.0
    counted = f"{found['top1_samples']} of {found['samples']}" if found.get("samples") else f"{share:.0%}"
    equal = 1.0 if "atol" in tolerance else tolerance.get("min_match", 1.0)
    return ", ".join([*parts, f"top-1 {counted}" + (f" (at least {equal:.0%} of all values)" if equal < 1 else "")])


def interval_words(ends: Sequence[float | None]) -> str:
    """Format an interval: "4.70 to 4.95"; an end among failed requests lies beyond every answer."""
    return " to ".join("beyond every answer" if end is None else figure(end) for end in ends)


def among_failed(latency: Latency) -> str:
    """Format a percentile that has no value: requests failed, or were too few."""
    return f"beyond every answer ({latency['failed']:,} failed)" if latency["failed"] else "not known"


def is_reduced(document: Result | ComparisonRow) -> bool:
    """Return True if the document's precision is a reduced one."""
    return document["precision"] not in {None, "fp32"}


def only_agreement(document: Result | ComparisonRow, found: OutputAgreement | RowAgreement) -> bool:
    """Return True if readers might take the figures for accuracy: reduced precision with random weights."""
    return is_reduced(document) and found.get("weights") == "random"


def rate(value: float | None) -> str:
    """One decimal, or three digits of a slow model's."""
    return f"{value:,.1f}" if value is not None and value >= 10 else figure(value)


def figure(value: float | None) -> str:
    """Three significant digits, or more where the number is large; a dash where there is none."""
    if value is None:
        return "-"
    if value and abs(value) < 0.0005:
        return f"{value:.2g}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 100 else 1 if abs(value) < 1000 else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(value).is_integer() else text
