"""All figures, by tag; another file of this package is another subject."""

import difflib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from servemark.errors import OptionError
from servemark.figures.evidence import Evidence
from servemark.figures.figure import Distribution, Figure, Part, alone
from servemark.figures.value import COUNT, Figures, FigureValue
from servemark.plugins import module_of, names_in

_PERCENTILE = re.compile(r"(?:(\w+)\.)?p(\d+(?:\.\d+)?)")
_SERVICE = "service_p"


_FIRST = ("latency", "throughput", "errors", "outputs", "server", "energy", "generator", "cpu")
"""Subjects that a reader sees first."""


@functools.cache
def _declared() -> tuple[Figure | Distribution, ...]:
    names = names_in(__package__)
    modules = [module_of(__package__, name) for name in sorted(names, key=[*_FIRST, *names].index)]
    return tuple(each for module in modules for each in getattr(module, "FIGURES", ()))


@functools.cache
def distributions() -> dict[str, Distribution]:
    """All distributions, by tag."""
    return {each.tag: each for each in _declared() if isinstance(each, Distribution)}


@functools.cache
def registry() -> dict[str, Figure]:
    """All figures that a result may hold, by tag."""
    found = [figure for each in _declared() for figure in (each.figures if isinstance(each, Distribution) else [each])]
    return {figure.tag: figure for figure in found}


def find(name: str) -> Figure:
    """Return a figure by its tag, its short name, or as a percentile of a distribution. Raises OptionError.

    `p97.5` is of the latency, `service_p99` of the service time, `sequence.p90` of the sequences.
    """
    if name in registry():
        return registry()[name]
    short = {figure.short: figure for figure in registry().values() if figure.short}
    if name in short:
        return short[name]
    full = f"service_time.p{name[len(_SERVICE) :]}" if name.startswith(_SERVICE) else name
    if match := _PERCENTILE.fullmatch(full):
        distribution = distributions().get(match[1] or "latency")
        percentile = float(match[2])
        if distribution is not None and not 0 < percentile < 100:
            raise OptionError(f"the percentile of {name!r} must lie between 0 and 100", fix="write it like p99")
        if distribution is not None:
            return distribution.percentile(percentile)
    names = ["p50", "p99", *short, *registry()]
    nearest = difflib.get_close_matches(name, names, n=3, cutoff=0.6) or names[:3]
    raise OptionError(
        f"there is no figure {name!r}",
        fix=f"one of: {', '.join(nearest)}; `servemark list figures` has all",
    )


def figures_of(evidence: Evidence) -> dict[str, FigureValue]:
    """Compute all figures of a run, of a run that goes on the live ones."""
    chosen = [figure for figure in registry().values() if figure.live or not evidence.live]
    found = [(figure, figure.of(evidence)) for figure in chosen]
    return {figure.tag: value.to_dict(figure.unit) for figure, value in found if value is not None}


def joined(parts: Sequence[Part]) -> dict[str, FigureValue]:
    """Join the figures of several runs at one time to those of all together."""
    found: dict[str, FigureValue] = {}
    for tag in dict.fromkeys(tag for part in parts for tag in part.figures):
        having = [part for part in parts if tag in part.figures]
        figure = registry().get(tag)
        value = figure.join(tag, having) if figure and len(having) == len(parts) else alone(tag, having)
        found[tag] = {**value.to_dict(COUNT), "unit": having[0].figures[tag]["unit"]}
    return found


def in_order(figures: Figures) -> Iterator[tuple[Figure, FigureValue]]:
    """Yield the figures of a document that are known here, subject by subject."""
    for tag, figure in registry().items():
        if tag in figures:
            yield figure, figures[tag]


def number(figures: Figures, tag: str) -> float | None:
    """Return a figure, None where it is not known or absent."""
    found = figures.get(tag)
    return None if found is None else found["value"]


def value_of(document: Mapping[str, object], tag: str) -> float | None:
    """Return a figure of a document, or of a part of one that has `figures`; None where it is not known or absent."""
    return number(_figures(document), tag)


def why_unknown(document: Mapping[str, object], tag: str) -> str:
    """Return why a figure of a document, or its interval, is not known."""
    found = _figures(document).get(tag)
    return (found and found.get("reason")) or "it was not measured"


def interval_of(document: Mapping[str, object], tag: str) -> list[float | None] | None:
    """Return the 95 % interval of a figure of a document, None without one."""
    found = _figures(document).get(tag)
    return None if found is None else found.get("ci95")


def count_of(document: Mapping[str, object], tag: str) -> int:
    """Return a figure of a document that counts something; 0 where it is not known."""
    return int(value_of(document, tag) or 0)


def _figures(document: Mapping[str, object]) -> Figures:
    return cast(Figures, document["figures"] or {})
