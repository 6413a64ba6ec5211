"""Engines of a comparison in words: who is fastest beyond chance, and how each was run."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from servemark.documents.load import ClosedLoop
from servemark.documents.saved_load import read_single_load
from servemark.quantities import figure, with_interval
from servemark.results.schema.comparison import ComparisonDocument, ComparisonRow
from servemark.stats.ratios import RatioFigures
from servemark.views.wording import listed

RatioName = Literal["p50", "p99", "inferences_per_s", "max_rate"]
RATIOS: dict[str, RatioName] = {"p50": "p50", "p99": "p99", "throughput": "inferences_per_s", "max rate": "max_rate"}
"""Of an engine to the first, as they are called and as comparison.json calls them."""
LOWER_IS_BETTER = ("p50", "p99")
_MEASURES: dict[RatioName, str] = {"max_rate": "highest rate", "p50": "p50", "inferences_per_s": "throughput"}
"""Ratios that tell who is fastest; the first that is known decides."""
_MANY = 4
"""Contenders above which the answer names the ends and leaves the rest to the table."""
_FASTER, _MORE = ("is fastest", "are faster", "is faster"), ("serves most", "serve more", "serves more")
"""Words for the best one, for several, and for one that is better than another."""
Ratios = Mapping[str, RatioFigures]


def answer(document: ComparisonDocument) -> list[str]:
    """Say who is fastest beyond chance, by which factor, or that none is; of a closed loop also by throughput.

    Like "onnxruntime is fastest: openvino 1.20x its p50, pytorch and tensorflow 2.4x".
    """
    first, rows, load = document["baseline"], document["rows"], document["load"]
    known = [key for key in _MEASURES if any(ratio_of(row, key) for row in rows)]
    if not known:
        return [f"{first} alone: {figure(rows[0]['inferences_per_s']['mean'])} inferences/s" if rows else "no figures"]
    closed = load is not None and isinstance(read_single_load(load), ClosedLoop)
    shown = [known[0], *(key for key in known[1:] if key == "inferences_per_s" and closed)]
    return [*(_fastest(first, rows, key) for key in shown), *_tested_together(rows, shown)]


def _tested_together(rows: Sequence[ComparisonRow], shown: Sequence[RatioName]) -> list[str]:
    """Explain ratios that may be chance, although the interval of each leaves out 1."""
    found = [(str(row["label"]), ratio) for key in shown for row in rows if (ratio := ratio_of(row, key))]
    odd = {name for name, ratio in found if not ratio["significant"] and _leaves_out_1(ratio)}
    if not odd:
        return []
    names = listed([name for name in dict(found) if name in odd])
    return [f"{names}: an interval leaves out 1, which may still be luck: all ratios are tested together (Holm)"]


def _leaves_out_1(ratio: RatioFigures) -> bool:
    return ratio["ci95"] is not None and not ratio["ci95"][0] <= 1 <= ratio["ci95"][1]


def _fastest(first: str, rows: Sequence[ComparisonRow], key: RatioName) -> str:
    found = {str(row["label"]): ratio for row in rows if (ratio := ratio_of(row, key))}
    measure, lower = _MEASURES[key], key in LOWER_IS_BETTER
    best, better, which = _FASTER if lower else _MORE
    if len(found) + 1 > _MANY:
        return _ends(first, found, measure, lower)
    if not all(ratio["ci95"] for ratio in found.values()):
        return f"too few rounds to tell who {which}: {_times(found)} the {measure} of {first}, without an interval"
    alike = {name: ratio for name, ratio in found.items() if not ratio["significant"]}
    faster = {name: ratio for name, ratio in found.items() if name not in alike and (ratio["value"] < 1) is lower}
    slower = {name: ratio for name, ratio in found.items() if name not in alike and name not in faster}
    ordered = sorted(faster, key=lambda name: faster[name]["value"], reverse=not lower)
    chance = ", ".join(f"{name} {with_interval(times(ratio), ratio['ci95'], 2)}" for name, ratio in alike.items())
    behind = _times(slower, f" its {measure}") if slower else ""
    if not faster and not alike:
        return f"{first} {best}: {behind}"
    if not faster and not slower:
        return f"no difference beyond chance: {chance} the {measure} of {first}"
    if not faster:
        return f"none {which} than {first} beyond chance: {chance} its {measure}; slower: {_times(slower)}"
    if all(_apart(faster[ordered[0]], found[name], lower) for name in [*ordered[1:], *alike]):
        factors = _times({name: faster[name] for name in ordered}) if len(ordered) > 1 else times(faster[ordered[0]])
        said = [f"{ordered[0]} {best}: {factors} the {measure} of {first}"]
    else:
        more = better if len(ordered) > 1 else which
        said = [f"{listed(ordered)} {more} than {first}: {_times({n: faster[n] for n in ordered})} its {measure}"]
    said += [f"slower: {_times(slower)}"] if slower else []
    return "; ".join([*said, *([f"not told apart from {first}: {chance}"] if alike else [])])


def _ends(first: str, found: Ratios, measure: str, lower: bool) -> str:
    """Name the first, the second and the last of many: "a is fastest with 0.62x the p50 of ort, then b 0.75x, ..."."""
    of_first: RatioFigures = {"value": 1.0, "ci95": [1.0, 1.0], "p_value": None, "significant": True}
    ratios = {first: of_first, **found}
    order = sorted(ratios, key=lambda name: ratios[name]["value"], reverse=not lower)
    best, second, *_, last = order
    whose = f"the {measure} of {first}"
    ends = f"from {best} {times(ratios[best])} to {last} {times(ratios[last])} {whose}"
    best_is, _, which = _FASTER if lower else _MORE
    if not all(ratio["ci95"] for ratio in found.values()):
        return f"too few rounds to tell who {which}: {ends}, without intervals"
    alike = [name for name in order[1:] if not _apart(ratios[best], ratios[name], lower)]
    if len(alike) == len(order) - 1:
        return f"no difference beyond chance among {len(order)}: {ends}"
    of, its = ("", f" its {measure}") if best == first else (f" with {times(ratios[best])} {whose}", "")
    if alike:
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        lead = f"{best} leads{of}, not told apart from {alike[0]} {times(ratios[alike[0]])}{its}{more}"
    else:
        lead = f"{best} {best_is}{of}, then {second} {times(ratios[second])}{its}"
    if last in alike:
        return f"{lead}; {len(order) - 1 - len(alike)} slower"
    between = len(order) - 2 - max(len(alike), 1)
    others = f", {between} other{'s' * (between > 1)} between" if between else ""
    return f"{lead}, slowest {last} {times(ratios[last])}{others}"


def _apart(best: RatioFigures, other: RatioFigures, lower: bool) -> bool:
    """Return True if the interval of the best ratio lies beyond the other's."""
    one, two = best["ci95"] or [1.0, 1.0], other["ci95"] or [1.0, 1.0]
    return one[1] < two[0] if lower else one[0] > two[1]


def _times(found: Ratios, of_what: str = "") -> str:
    """Join engines of one factor: "openvino 1.20x its p50, pytorch and tensorflow 2.4x"."""
    groups: dict[str, list[str]] = {}
    for name, ratio in found.items():
        groups.setdefault(times(ratio), []).append(name)
    first, *others = (f"{listed(names)} {factor}" for factor, names in groups.items())
    return ", ".join([first + of_what, *others])


def times(ratio: RatioFigures) -> str:
    """Format a factor: "1.20x", "2.4x"."""
    value = ratio["value"]
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 10 else f"{value:,.0f}x"


def ratio_of(row: ComparisonRow, name: RatioName) -> RatioFigures | None:
    """One of an engine's ratios, by its key in comparison.json."""
    return row["ratio"][name]


def device(row: ComparisonRow) -> str:
    """Name an engine's device, and its provider if that says more: "cpu, eager", but not "cpu, CPU"."""
    place = str(row["device"] or "?")
    kind = "cpu" if place.startswith("cpu") else "cuda|gpu"
    more = re.sub(rf"^({kind})(:\d+)?\s*", "", str(row["provider"] or ""), flags=re.IGNORECASE)
    more = more.replace("ExecutionProvider", "").strip()
    known = {"", str(row["precision"]), str(row["precision"]).replace("fp", "f")}
    return place if more in known else f"{place}, {more}"


def layout(row: ComparisonRow) -> str:
    """The instances of an engine and the threads of each, as its configuration says; 0 leaves them to the engine."""
    found = row.get("configuration")
    return f"{found['instances']} x {found['threads'] or 'all'}" if found else "-"
