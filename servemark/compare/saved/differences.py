"""Comparison of saved results: B is worse than A, not worse, or the runs are too few to decide."""

from collections.abc import Sequence
from dataclasses import replace

from servemark.compare.saved.figures import ALL, Gate, Pair, chosen
from servemark.compare.saved.saved_runs import Key, Run, Side, Subjects, differing, subjects
from servemark.errors import ResultError
from servemark.results.schema.comparison import DifferingKey, SavedComparison, Subject
from servemark.results.schema.details import PROCESS
from servemark.results.schema.header import opening, reason_of
from servemark.stats.percentiles import CONFIDENCE


def compare_sides(
    first: Sequence[Run], second: Sequence[Run], gate: Gate, names: tuple[str, str] = ("A", "B")
) -> SavedComparison:
    """Compare B with A, subject by subject. Raises ResultError, OptionError for an unknown figure.

    If both sides hold one subject each, these are compared even if they differ, for example in the engine.
    """
    wanted, usual = chosen(gate.figures), chosen(ALL)
    sides = subjects(first), subjects(second)
    matched = _match(*sides, names)
    pairs = [_pair(sides[0][a], sides[1][b], gate, names) for a, b in matched]
    # Bonferroni: all judged figures of all subjects together have a confidence of 95 %.
    tests = sum(pair.can_differ(figure) for pair in pairs for figure in wanted)
    confidence = 1 - (1 - CONFIDENCE) / max(tests, 1)
    shown = list(dict.fromkeys([*usual, *wanted]))
    judged = [_judged(replace(pair, confidence=confidence), shown, wanted, skip=ALL in gate.figures) for pair in pairs]
    found = [subject for subject, _ in judged]
    return saved_comparison(
        names,
        gate,
        judged=wanted,
        confidence=confidence,
        subjects=found,
        regressions=[f"{s['b']}: {d['figure']}" for s in found for d in s["differences"] if d["regression"]],
        undecided=[reason for _, reasons in judged for reason in reasons],
        warnings=[
            *_clocks(first, second, names),
            *(side.note for pair in pairs for side in pair.sides if side.note and not side.trouble),
            *_alone(sides, matched, names),
        ],
        differing=differing(first[0].result, second[0].result),
    )


def saved_comparison(
    names: tuple[str, str],
    gate: Gate,
    *,
    judged: list[str],
    confidence: float,
    subjects: list[Subject],
    regressions: list[str],
    undecided: list[str],
    warnings: list[str],
    differing: list[DifferingKey],
) -> SavedComparison:
    """Make the document of a difference; its outcome follows from what is worse and what is undecided."""
    return {
        **opening(),
        "kind": "saved_comparison",
        "a": names[0],
        "b": names[1],
        "threshold": gate.threshold,
        "confidence": confidence,
        "judged": judged,
        "outcome": "worse" if regressions else "undecided" if undecided else "not worse",
        "undecided": undecided,
        "subjects": subjects,
        "warnings": warnings,
        "differing": differing,
        "regressions": regressions,
    }


def _pair(first: Sequence[Run], second: Sequence[Run], gate: Gate, names: tuple[str, str]) -> Pair:
    """Pair both sides of a subject, with the runs that count."""
    others = (second, first) if gate.paired else ((), ())
    a, b = (
        Side.of(name, runs, other, allow_invalid=gate.allow_invalid)
        for name, runs, other in zip(names, (first, second), others, strict=True)
    )
    return Pair((a, b), gate)


def _match(a: Subjects, b: Subjects, names: tuple[str, str]) -> list[tuple[Key, Key]]:
    """Match the subjects of both sides. Raises ResultError where there is nothing to compare."""
    matched = [(key, key) for key in a if key in b]
    if len(a) == len(b) == 1:
        matched = [(next(iter(a)), next(iter(b)))]
    workloads = [{workload for workload, *_ in side} for side in (a, b)]
    if not matched or not workloads[0] & workloads[1]:
        raise ResultError(
            f"{names[0]} holds {_named(a)}, {names[1]} holds {_named(b)}: nothing to compare",
            fix="name results of one workload under one load",
        )
    return matched


def _named(side: Subjects) -> str:
    return "; ".join(runs[0].subject for runs in side.values())


def _judged(pair: Pair, shown: Sequence[str], wanted: Sequence[str], *, skip: bool) -> tuple[Subject, list[str]]:
    """Compare the figures of one subject; the second value lists why those that are wanted are undecided.

    With `skip` a wanted figure that the sides do not have is not judged.
    """
    troubles = [side.trouble for side in pair.sides if side.trouble]
    undecided, differences = [*troubles], []
    for figure in shown:
        found = pair.compare(figure)
        differences.append(found)
        if figure not in wanted or (skip and not pair.has(figure)):
            continue
        found["judged"] = True
        # Wrong outputs are wrong whatever disturbed the machine.
        found["regression"] = found["reading"] == "worse" and (not troubles or figure == "outputs")
        if not troubles and found["reading"] in {"undecided", "not known"}:
            undecided.append(f"{found['figure']}: {reason_of(found, 'figure')}")
    a, b = (side.runs[0].subject for side in pair.sides)
    return {"a": a, "b": b, "runs": [*pair.counts], "differences": differences}, undecided


def _clocks(first: Sequence[Run], second: Sequence[Run], names: tuple[str, str]) -> list[str]:
    """Warn where one clock told when answers came on one side, and another on the other."""
    clocks = [
        {run.result["details"].get("clock", {}).get("receive", PROCESS) for run in runs} for runs in (first, second)
    ]
    if clocks[0] == clocks[1]:
        return []
    each = ", ".join(f"{name}: {' and '.join(sorted(found))}" for name, found in zip(names, clocks, strict=True))
    return [f"latencies of two clocks ({each}): the process's hold the wait for the generator too, up to milliseconds"]


def _alone(sides: tuple[Subjects, Subjects], matched: Sequence[tuple[Key, Key]], names: tuple[str, str]) -> list[str]:
    """Name the subjects that only one side holds."""
    return [
        f"only in {name}: {runs[0].subject}"
        for index, name in enumerate(names)
        for key, runs in sides[index].items()
        if key not in {both[index] for both in matched}
    ]
