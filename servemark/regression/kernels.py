"""Saved kernels against each other: the median over cases of how much longer B takes, in all and family by family."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from servemark.errors import OptionError, ResultError
from servemark.regression.differences import Gate
from servemark.regression.figures import ALL, difference_of, read, unknown_difference
from servemark.regression.saved_runs import circumstances
from servemark.report.kernels import named, other_work, title
from servemark.report.terminal.suite import IDLE_SHARE
from servemark.results import directory as results
from servemark.results.schema.comparison import Difference, DifferingKey, Outcome, SavedComparison
from servemark.results.schema.header import opening, reason_of
from servemark.results.schema.kernels import KernelsDocument, ProbeKey
from servemark.stats.order_statistics import CONFIDENCE
from servemark.stats.power import detectable
from servemark.stats.ratios import MINIMUM_FOR_MEDIAN, Ratio, median_ratio

FIGURE = "kernels"
PROBES: dict[ProbeKey, str] = {"product_ms": "the machine's product ms", "copy_ms": "the machine's copy ms"}
"""Figures that tell of the machine, not of the kernels."""
Times = dict[str, float]
"""Median milliseconds by case."""


def read_kernels(text: str) -> list[KernelsDocument]:
    """The results of kernels that one side names, separated by commas; none where its first is no such."""
    found = []
    for path in map(Path, text.split(",")):
        folders = [path] if (path / results.RESULT_FILE).is_file() or not path.is_dir() else _below(path)
        documents = [results.read(folder) for folder in folders if folder.exists()]
        if not documents or documents[0].get("kind") != "kernels":
            return []
        found += [cast(KernelsDocument, each) for each in documents if each.get("kind") == "kernels"]
    return found


def _below(folder: Path) -> list[Path]:
    return [file.parent for file in sorted(folder.glob(f"*/{results.RESULT_FILE}"))]


def compare_kernels(
    first: Sequence[KernelsDocument], second: Sequence[KernelsDocument], gate: Gate, names: tuple[str, str]
) -> SavedComparison:
    """B against A by the cases that both have. Raises OptionError, and ResultError where they have none."""
    if gate.figures != ALL:
        raise OptionError(f"--fail-on {gate.figures} with kernels, which have one figure", fix=f"--fail-on {ALL}")
    if not first or not second:
        raise ResultError(f"{names[0 if not first else 1]} holds no kernels", fix="name kernels on both sides")
    a, b = _times(first), _times(second)
    common = [case for case in a if case in b]
    if not common:
        raise ResultError(f"{names[0]} and {names[1]} have no measured case in common", fix="name the same suite")
    machine = _machine(first, second, common, gate)
    whole = _beside(_difference("all kernels ms", common, a, b, gate), machine, gate)
    whole["judged"] = True
    whole["regression"] = whole["reading"] == "worse"
    families = dict.fromkeys(case.partition(" ")[0] for case in common)
    own = {family: [case for case in common if case.partition(" ")[0] == family] for family in families}
    undecided = whole["reading"] in {"undecided", "not known"}
    outcome: Outcome = "worse" if whole["regression"] else "undecided" if undecided else "not worse"
    return {
        **opening("saved_comparison"),
        "a": names[0],
        "b": names[1],
        "threshold": gate.threshold,
        "confidence": CONFIDENCE,
        "judged": [FIGURE],
        "outcome": outcome,
        "undecided": [f"{whole['figure']}: {reason_of(whole, 'figure')}"] if undecided else [],
        "subjects": [
            {
                "a": title(first[0]),
                "b": title(second[0]),
                "runs": [len(first), len(second)],
                "differences": [
                    whole,
                    *(_difference(f"{name} ms", own[name], a, b, gate) for name in families),
                    *machine,
                ],
            }
        ],
        "warnings": [*_alone(a, b, names[0]), *_alone(b, a, names[1]), *_disturbed(first, second, names)],
        "differing": _differing(first[0], second[0]),
        "regressions": [whole["figure"]] if whole["regression"] else [],
    }


def _times(documents: Sequence[KernelsDocument], probe: ProbeKey | None = None) -> Times:
    """Each measured case's median, over the medians of repeats; or what a probe of the machine took before it."""
    found: dict[str, list[float]] = {}
    for document in documents:
        for case in document["cases"]:
            own = case.get("probe")
            if case["ms"] and probe is None:
                found.setdefault(named(case), []).append(case["ms"]["median"])
            elif probe and own:
                found.setdefault(named(case), []).append(own[probe])
    return {case: statistics.median(times) for case, times in found.items()}


def _machine(
    first: Sequence[KernelsDocument], second: Sequence[KernelsDocument], common: Sequence[str], gate: Gate
) -> list[Difference]:
    """What the same product and the same copy took on both sides, before the cases that both have."""
    found = []
    for probe, figure in PROBES.items():
        a, b = _times(first, probe), _times(second, probe)
        both = [case for case in common if case in a and case in b]
        if both:
            found.append(_difference(figure, both, a, b, gate))
    return found


def _beside(whole: Difference, machine: Sequence[Difference], gate: Gate) -> Difference:
    """The judged figure, undecided where the machine itself changed by enough to have made, or hidden, a loss."""
    ratio = _ratio(whole)
    for probe in machine:
        own = _ratio(probe)
        if ratio is None or own is None or read(own, gate.threshold) not in {"worse", "better"}:
            continue
        assert ratio.low is not None
        assert ratio.high is not None
        alone = Ratio(ratio.value / own.value, ratio.low / own.value, ratio.high / own.value)
        without = read(alone, gate.threshold)
        stays = without == "worse" if whole["reading"] == "worse" else without in {"not worse", "better"}
        if whole["reading"] != "undecided" and not stays:
            figure = probe["figure"].removesuffix(" ms")
            words = f"{figure} took {own.value:.2f} times as long in B: measure both sides again, in turns"
            return cast(Difference, whole | {"reading": "undecided", "reason": words})
    return whole


def _ratio(difference: Difference) -> Ratio | None:
    """A difference's ratio, None where it has no interval."""
    known = difference["ratio"]
    return Ratio(known["value"], *known["ci95"]) if known and known["ci95"] else None


def _difference(figure: str, cases: Sequence[str], a: Times, b: Times, gate: Gate) -> Difference:
    """The ratio of the cases' times; the values of both sides are geometric means."""
    first, second = (statistics.geometric_mean([times[case] for case in cases]) for times in (a, b))
    ratio = median_ratio([(b[case], a[case]) for case in cases])
    if ratio.high is None:
        few = f"{len(cases)} case{'s' * (len(cases) > 1)}: an interval needs {MINIMUM_FOR_MEDIAN}"
        return unknown_difference(figure, few, first, second, ratio)
    reading = read(ratio, gate.threshold)
    why = "the interval leaves neither out" if reading == "undecided" else None
    found = difference_of(figure, first, second, ratio, reading, why)
    found["detects"] = detectable(ratio)
    return found


def _alone(own: Times, other: Times, name: str) -> list[str]:
    alone = [case for case in own if case not in other]
    more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
    return [f"only in {name}: {alone[0]}{more}"] if alone else []


def _disturbed(
    first: Sequence[KernelsDocument], second: Sequence[KernelsDocument], names: tuple[str, str]
) -> list[str]:
    sides = zip(names, (first, second), strict=True)
    busy = [(name, max(map(other_work, documents))) for name, documents in sides]
    return [f"{name}: other work used {share:.0%} of the cores" for name, share in busy if share > IDLE_SHARE]


def _differing(first: KernelsDocument, second: KernelsDocument) -> list[DifferingKey]:
    sides = [_about(document) for document in (first, second)]
    keys = sorted(sides[0].keys() | sides[1].keys())
    return [{"key": key, "a": a, "b": b} for key in keys if (a := sides[0].get(key)) != (b := sides[1].get(key))]


def _about(document: KernelsDocument) -> dict[str, object]:
    own = {key: document[key] for key in ("suite", "device", "cache", "threads", "library")}
    return own | circumstances(document)
