"""Compare saved results, runs or kernels, B against A, with an exit code that a pipeline can stop at."""

import functools
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from servemark.compare.interleaved.run import Comparison
from servemark.compare.saved.differences import compare_sides, saved_comparison
from servemark.compare.saved.figures import ALL, Gate, difference_of, read
from servemark.compare.saved.saved_runs import Run, circumstances, differing_keys, engine_of, names_of, read_side
from servemark.errors import ExitCode, OptionError, ResultError, parsing
from servemark.machine.cpu_time import QUIET_SHARE
from servemark.paths import found
from servemark.results import directory as results
from servemark.results.saved import runs_below
from servemark.results.schema.comparison import Difference, SavedComparison, Subject
from servemark.results.schema.header import reason_of
from servemark.results.schema.kernels import KernelCase, KernelsDocument, ProbeKey, named, other_work, title
from servemark.stats.percentiles import CONFIDENCE
from servemark.stats.power import detectable
from servemark.stats.ratios import MINIMUM_FOR_MEDIAN, median_ratio

FIGURE = "kernels"
WHOLE = "all kernels ms"
PROBES: dict[ProbeKey, str] = {"product_ms": "the machine's product ms", "copy_ms": "the machine's copy ms"}
"""Figures that tell of the machine, not of the kernels."""
WITHOUT = "all kernels / machine"
"""Each case's time over that of a product, or a copy, just before it: a change of the machine is taken out."""
Times = dict[str, float]
"""Median milliseconds by case."""
CODES = {"worse": ExitCode.REGRESSION, "undecided": ExitCode.INVALID, "not worse": ExitCode.VALID}


def read_kernels(text: str) -> list[KernelsDocument]:
    """Read the kernel results that one side names, separated by commas; none if the first is not one."""
    kernels = []
    for path in map(found, text.split(",")):
        files = runs_below(path) if path.is_dir() and not (path / results.RESULT_FILE).is_file() else [path]
        documents = [results.read(file) for file in files if file.exists()]
        if not documents or documents[0].get("kind") != "kernels":
            return []
        kernels += [results.typed(each, path, KernelsDocument) for each in documents if each.get("kind") == "kernels"]
    return kernels


def compare_kernels(
    first: Sequence[KernelsDocument], second: Sequence[KernelsDocument], gate: Gate, names: tuple[str, str]
) -> SavedComparison:
    """B against A by the cases that both have. Raises OptionError, and ResultError where they have none."""
    if gate.figures != ALL:
        raise OptionError(f"--fail-on {gate.figures} with kernels, which have one figure", fix=f"--fail-on {ALL}")
    if not first or not second:
        raise ResultError(f"{names[0 if not first else 1]} holds no kernels", fix="name kernels on both sides")
    a, b = _times(first, _ms), _times(second, _ms)
    common = [case for case in a if case in b]
    if not common:
        raise ResultError(f"{names[0]} and {names[1]} have no measured case in common", fix="name the same suite")
    machine = _machine(first, second, common, gate)
    whole = _beside(_difference(WHOLE, common, a, b, gate), machine)
    whole["judged"] = True
    whole["regression"] = whole["reading"] == "worse"
    families = dict.fromkeys(case.partition(" ")[0] for case in common)
    own = {family: [case for case in common if case.partition(" ")[0] == family] for family in families}
    undecided = whole["reading"] in {"undecided", "not known"}
    shares = [(name, max(map(other_work, side))) for name, side in zip(names, (first, second), strict=True)]
    busy = [f"{name}: other work used {share:.0%} of the cores" for name, share in shares if share > QUIET_SHARE]
    subject: Subject = {
        "a": title(first[0]),
        "b": title(second[0]),
        "runs": [len(first), len(second)],
        "differences": [whole, *(_difference(f"{name} ms", own[name], a, b, gate) for name in families), *machine],
    }
    return saved_comparison(
        names,
        gate,
        judged=[FIGURE],
        confidence=CONFIDENCE,
        subjects=[subject],
        regressions=[whole["figure"]] if whole["regression"] else [],
        undecided=[f"{whole['figure']}: {reason_of(whole, 'figure')}"] if undecided else [],
        warnings=[*_alone(a, b, names[0]), *_alone(b, a, names[1]), *busy],
        differing=differing_keys(_about(first[0]), _about(second[0])),
    )


def _times(documents: Sequence[KernelsDocument], figure: Callable[[KernelCase], float | None]) -> Times:
    """A figure of each case that has it, over repeats their median."""
    found: dict[str, list[float]] = {}
    for document in documents:
        for case in document["cases"]:
            if (value := figure(case)) is not None:
                found.setdefault(named(case), []).append(value)
    return {case: statistics.median(times) for case, times in found.items()}


def _ms(case: KernelCase) -> float | None:
    return case["ms"]["median"] if case["ms"] else None


def _probe_ms(probe: ProbeKey, case: KernelCase) -> float | None:
    """Return the time that the machine took for a product or a copy just before the case."""
    known = case.get("probe")
    return known[probe] if known else None


def _in_probes(by_memory: Collection[str], case: KernelCase) -> float | None:
    """Divide the case's time by that of its probe: the copy if memory bounds the case, else the product."""
    ms, probe = _ms(case), _probe_ms("copy_ms" if named(case) in by_memory else "product_ms", case)
    return ms / probe if ms and probe else None


def _machine(
    first: Sequence[KernelsDocument], second: Sequence[KernelsDocument], common: Sequence[str], gate: Gate
) -> list[Difference]:
    """Compare the machine's own speed before the common cases, and all kernels after removing its change."""
    # A case near the edge may have another bound in B, but is compared with the same probe.
    by_memory = {named(case) for document in first for case in document["cases"] if case.get("bound") == "memory"}
    figures: dict[str, Callable[[KernelCase], float | None]] = {
        **{figure: functools.partial(_probe_ms, probe) for probe, figure in PROBES.items()},
        WITHOUT: functools.partial(_in_probes, by_memory),
    }
    found = []
    for name, figure in figures.items():
        a, b = _times(first, figure), _times(second, figure)
        both = [case for case in common if case in a and case in b]
        if both:
            found.append(_difference(name, both, a, b, gate))
    return found


def _beside(whole: Difference, machine: Sequence[Difference]) -> Difference:
    """Return the judged figure, undecided if the machine itself changed enough to cause or hide a loss."""
    if whole["reading"] in {"undecided", "not known"}:
        return whole
    # A slower machine causes a loss and hides none; a faster one does the reverse.
    suspect, confirming = ("worse", {"worse"}) if whole["reading"] == "worse" else ("better", {"not worse", "better"})
    changed = [each for each in machine if each["figure"] in PROBES.values() and each["reading"] == suspect]
    if not changed or machine[-1]["reading"] in confirming:
        return whole
    took = " and ".join(f"{each['figure'].removesuffix(' ms')} took {_value(each):.2f}" for each in changed)
    words = f"{took} times as long in B; without that the ratio is {_value(machine[-1]):.2f}: measure again, in turns"
    return {**whole, "reading": "undecided", "reason": words}


def _value(difference: Difference) -> float:
    assert difference["ratio"]  # of cases that were measured
    return difference["ratio"]["value"]


def _difference(figure: str, cases: Sequence[str], a: Times, b: Times, gate: Gate) -> Difference:
    """Return the ratio of the cases' times; the values of both sides are geometric means."""
    first, second = (statistics.geometric_mean([times[case] for case in cases]) for times in (a, b))
    ratio = median_ratio([(b[case], a[case]) for case in cases])
    if ratio.high is None:
        few = f"{len(cases)} of {MINIMUM_FOR_MEDIAN} cases"
        return difference_of(figure, "not known", few, first, second, ratio)
    reading = read(ratio, gate.threshold)
    why = "the interval leaves neither out" if reading == "undecided" else None
    found = difference_of(figure, reading, why, first, second, ratio)
    found["minimum_detectable_change"] = detectable(ratio, (len(cases), len(cases)), paired=True)
    return found


def _alone(own: Times, other: Times, name: str) -> list[str]:
    alone = [case for case in own if case not in other]
    more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
    return [f"only in {name}: {alone[0]}{more}"] if alone else []


def _about(document: KernelsDocument) -> dict[str, object]:
    own = {key: document[key] for key in ("suite", "device", "cache", "threads", "library")}
    return own | circumstances(document)


def compare_saved(sides: Sequence[str], gate: Gate) -> SavedComparison:
    """Compare two saved sides, B against A. Raises OptionError, and ResultError also if a result is damaged."""
    if len(sides) != 2:
        raise OptionError(
            f"{len(sides)} results were named, not A and B",
            fix="servemark compare RESULT_A RESULT_B, several of a side with commas; or WORKLOAD --engines A,B",
        )
    first, second = sides
    names = names_of((first, second))
    kernels = read_kernels(first), read_kernels(second)
    with parsing(f"{first} or {second}", ResultError, fix="name whole result directories"):
        if any(kernels):
            found = compare_kernels(*kernels, gate, names)
        else:
            found = compare_sides(read_side(first), read_side(second), gate, names)
        results.to_json(found)  # no NaN, as JSON has none
    return found


def compare_rounds(comparison: Comparison, gate: Gate) -> SavedComparison:
    """The second of two sides against the first, by the rounds that both have. Raises OptionError."""
    labels = list(dict.fromkeys(turn.label for turn in comparison.turns))
    if len(labels) != 2:
        raise OptionError(f"--fail-on with {len(labels)} sides that were measured", fix="name two")
    whole = {(turn.label, turn.round): turn for turn in comparison.turns if not turn.result["partial"]}
    rounds = sorted({number for _, number in whole if all((label, number) in whole for label in labels)})
    first, second = (
        [Run(engine_of((turn := whole[label, number]).result), turn.result, turn.latency) for number in rounds]
        for label in labels
    )
    return compare_sides(first, second, replace(gate, paired=True), (labels[0], labels[1]))


def exit_code(found: SavedComparison) -> int:
    """Return the exit code of a pipeline that stops at a regression."""
    return int(CODES[found["outcome"]])
