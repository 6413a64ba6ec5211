"""Comparison of saved results: B is worse than A, not worse, or the runs are too few to decide."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from servemark.compare.saved.figures import ALL, Pair, chosen, exists
from servemark.compare.saved.saved_runs import Key, Run, Side, differing, subjects
from servemark.errors import ResultError
from servemark.results.schema.comparison import Difference, DifferingKey, SavedComparison, Subject
from servemark.results.schema.details import PROCESS
from servemark.results.schema.header import opening, reason_of
from servemark.stats.order_statistics import CONFIDENCE


@dataclass(frozen=True)
class Gate:
    """Figures to judge, and the rules for it."""

    figures: str = ALL
    """Figures, as `--fail-on` names them."""
    threshold: float = 0.05
    """The share below which no difference counts."""
    allow_invalid: bool = False
    """True if runs count that are not fit to be compared."""
    paired: bool = False
    """True if the n-th runs of both sides belong to one round."""


def compare_sides(
    first: Sequence[Run], second: Sequence[Run], gate: Gate, names: tuple[str, str] = ("A", "B")
) -> SavedComparison:
    """Compare B with A, subject by subject. Raises ResultError, OptionError for an unknown figure.

    If both sides hold one subject each, these are compared even if they differ, for example in the engine.
    """
    wanted, usual = chosen(gate.figures), chosen(ALL)
    sides = [subjects(runs) for runs in (first, second)]
    matched = _match(first, second, names)
    pairs = [
        Pair(
            *_sides(names, sides[0][a], sides[1][b], gate),
            threshold=gate.threshold,
            confidence=CONFIDENCE,
            paired=gate.paired,
        )
        for a, b in matched
    ]
    # Bonferroni: all judged figures of all subjects together have a confidence of 95 %.
    tests = sum(pair.can_differ(figure) for pair in pairs for figure in wanted)
    confidence = 1 - (1 - CONFIDENCE) / max(tests, 1)
    shown = list(dict.fromkeys([*usual, *wanted]))
    judged = [_Judged(replace(pair, confidence=confidence), shown, wanted, skip=ALL in gate.figures) for pair in pairs]
    found = [each.subject for each in judged]
    return saved_comparison(
        names,
        gate,
        judged=wanted,
        confidence=confidence,
        subjects=found,
        regressions=[f"{s['b']}: {d['figure']}" for s in found for d in s["differences"] if d["regression"]],
        undecided=[reason for each in judged for reason in each.undecided],
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


def _sides(names: tuple[str, str], first: Sequence[Run], second: Sequence[Run], gate: Gate) -> tuple[Side, Side]:
    """Return both sides with the runs that count."""
    others = (second, first) if gate.paired else ((), ())
    return (
        Side.of(names[0], first, others[0], allow_invalid=gate.allow_invalid),
        Side.of(names[1], second, others[1], allow_invalid=gate.allow_invalid),
    )


def _match(first: Sequence[Run], second: Sequence[Run], names: tuple[str, str]) -> list[tuple[Key, Key]]:
    """Match the subjects of both sides."""
    a, b = subjects(first), subjects(second)
    matched = [(key, key) for key in a if key in b]
    if len(a) == len(b) == 1:
        matched = [(next(iter(a)), next(iter(b)))]
    workloads = [{run.result["workload"] for run in runs} for runs in (first, second)]
    if not matched or not workloads[0] & workloads[1]:
        raise ResultError(
            f"{names[0]} holds {_named(a)}, {names[1]} holds {_named(b)}: nothing to compare",
            fix="name results of one workload under one load",
        )
    return matched


def _named(side: dict[Key, list[Run]]) -> str:
    return "; ".join(runs[0].subject for runs in side.values())


class _Judged:
    """One subject: its figures, and the undecided ones with their reasons."""

    def __init__(self, pair: Pair, shown: Sequence[str], wanted: Sequence[str], *, skip: bool) -> None:
        troubles = [side.trouble for side in pair.sides if side.trouble]
        self.undecided: list[str] = list(troubles)
        differences = []
        for figure in shown:
            found = pair.compare(figure)
            if figure in wanted and (exists(found, pair) or not skip):
                self._judge(found, fit=not troubles)
            differences.append(found)
        a, b = (side.runs[0].subject for side in pair.sides)
        runs = [len(side.runs) for side in pair.sides]
        self.subject: Subject = {"a": a, "b": b, "runs": runs, "differences": differences}

    def _judge(self, found: Difference, *, fit: bool) -> None:
        found["judged"] = True
        # Wrong outputs are wrong whatever disturbed the machine.
        found["regression"] = found["reading"] == "worse" and (fit or found["figure"] == "top-1 agreement")
        if fit and found["reading"] in {"undecided", "not known"}:
            self.undecided.append(f"{found['figure']}: {reason_of(found, 'figure')}")


def _clocks(first: Sequence[Run], second: Sequence[Run], names: tuple[str, str]) -> list[str]:
    """Warn where one clock told when answers came on one side, and another on the other."""
    clocks = [
        {run.result["details"].get("clock", {}).get("receive", PROCESS) for run in runs} for runs in (first, second)
    ]
    if clocks[0] == clocks[1]:
        return []
    each = ", ".join(f"{name}: {' and '.join(sorted(found))}" for name, found in zip(names, clocks, strict=True))
    return [f"latencies of two clocks ({each}): the process's hold the wait for the generator too, up to milliseconds"]


def _alone(
    sides: Sequence[dict[Key, list[Run]]], matched: Sequence[tuple[Key, Key]], names: tuple[str, str]
) -> list[str]:
    """Name the subjects that only one side holds."""
    return [
        f"only in {name}: {runs[0].subject}"
        for index, name in enumerate(names)
        for key, runs in sides[index].items()
        if key not in {both[index] for both in matched}
    ]
