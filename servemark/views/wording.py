"""Wording of every report: how outputs agree, and numbers as a reader takes them in."""

from collections.abc import Mapping, Sequence
from typing import Any

from servemark.figures.registry import in_order, value_of
from servemark.quantities import figure
from servemark.results.schema.comparison import ComparisonRow
from servemark.results.schema.details import OutputAgreement
from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Result

RANDOM_WEIGHTS = "random weights: agreement with fp32, no accuracy"


def agreement_words(found: OutputAgreement) -> str:
    """Format the agreement, with the limit of a reduced precision: "cosine 0.9760 (at least 0.9), top-1 8 of 16"."""
    tolerance = found.get("tolerance") or {}
    parts = []
    if "min_cosine" in tolerance and found["cosine_min"] is not None:
        parts.append(f"cosine {found['cosine_min']:.4f} (at least {tolerance['min_cosine']:g})")
        if "max_spread_error" in tolerance and (error := found.get("spread_error_max")) is not None:
            parts.append(f"error {error:.2g} of the spread (at most {tolerance['max_spread_error']:g})")
    elif found["max_abs_error"] is not None:
        parts.append(f"max error {found['max_abs_error']:.2g}")
    # Results of earlier versions do not count samples.
    share = found["top1_agreement"] or 0.0
    counted = f"{found['top1_samples']} of {found['samples']}" if found.get("samples") else f"{share:.0%}"
    equal = 1.0 if "rtol" in tolerance else tolerance.get("min_match", 1.0)
    return ", ".join([*parts, f"top-1 {counted}" + (f" (at least {equal:.0%} of all values)" if equal < 1 else "")])


def served(document: Mapping[str, Any], *more: str) -> str:
    """Name what answered: "ncf on onnxruntime, cpu, fp32", with `more` of the document's keys behind."""
    place = ", ".join(str(document[key]) for key in ("engine", "device", "precision", *more))
    return f"{document['workload']} on {place}"


def cells(group: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """Format these figures of a group."""
    return [figure(figure_of(group, key)) for key in keys]


def values(document: Mapping[str, object], tags: Sequence[str]) -> list[str]:
    """Format these figures of a document."""
    return [figure(value_of(document, tag)) for tag in tags]


def columns(document: Mapping[str, Any]) -> dict[str, float | None]:
    """Return all figures of a document as columns of a spreadsheet, with the ends of their intervals."""
    found: dict[str, float | None] = {}
    for each, value in in_order(document["figures"]):
        found[each.column] = value["value"]
        if "ci95" in value:
            found |= low_and_high(each.column, value["ci95"])
    return found


def listed(names: Sequence[str]) -> str:
    """Join names: "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def score(value: float | None) -> str:
    """Four decimals of a share, four digits of anything larger."""
    if value is None:
        return "-"
    return figure(value) if abs(value) >= 1e6 else f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def percent(share: float | None) -> str:
    """Format a share: "12.3 %"."""
    return "-" if share is None else f"{share * 100:.1f} %"


def low_and_high(name: str, ends: Sequence[float | None] | None) -> dict[str, float | None]:
    """Return both ends of an interval as columns of a table, empty without one."""
    low, high = ends or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def is_reduced(document: Result | ComparisonRow) -> bool:
    """Return True if the document's precision is a reduced one."""
    return document["precision"] not in {None, "fp32"}


def only_agreement(document: Result | ComparisonRow, found: OutputAgreement) -> bool:
    """Return True if readers might take the figures for accuracy: reduced precision with random weights."""
    return is_reduced(document) and found.get("weights") == "random"
