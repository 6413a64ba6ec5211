"""Engines side by side: what interleaved rounds of real runs say about each, and about each against the first."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servemark.comparison.validity import Result, unmet, unsteady
from servemark.max_rate.refinement import HighestRate
from servemark.results import directory as results
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import percentile_key, samples_needed
from servemark.stats.ratios import (
    MINIMUM_PAIRS,
    MINIMUM_REPEATS,
    Ratio,
    mean_interval,
    merge,
    merged_interval,
    ratio_of_pairs,
    variation,
)
from servemark.stats.trend import has_trend

COMPARISON_FILE = "comparison.json"
PERCENTILES = (50.0, 90.0, 99.0)
NOT_SEARCHED = "not searched for: --max-rate --slo p99:MS"


@dataclass(frozen=True)
class Turn:
    """One run of one engine in one round, counted from 1, with its latencies."""

    round: int
    label: str
    directory: str
    result: Result
    latency: Histogram

    @classmethod
    def read(cls, number: int, label: str, directory: Path) -> "Turn":
        """Read a result directory. Raises ResultError."""
        return cls(number, label, directory.name, results.read(directory), results.read_latency(directory))

    def to_dict(self) -> dict[str, Any]:
        """As comparison.json lists it; `unsteady` says that the run alone would be INVALID, for that only."""
        wrong = unmet(self.result)
        return {
            "round": self.round,
            "label": self.label,
            "directory": self.directory,
            "seed": self.result["seed"],
            "partial": self.result["partial"],
            "valid": not wrong,
            "failed": wrong,
            "unsteady": unsteady(self.result),
            "p50_ms": p50(self.result),
            "inferences_per_s": throughput(self.result),
        }


def rows(turns: Sequence[Turn], labels: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each engine that has a whole run, the first being what the others are held against."""
    whole = {label: [t for t in turns if t.label == label and not t.result["partial"]] for label in labels}
    first = whole[labels[0]]
    return [_row(label, whole[label], first if label != labels[0] else None) for label in labels if whole[label]]


def throughput(result: Result) -> float:
    """Inferences/s of a run."""
    return float(result["metrics"]["throughput"]["inferences_per_s"])


def p50(result: Result) -> float | None:
    """Median latency of a run in ms; None where it has too few requests for one."""
    value: float | None = result["metrics"]["latency_ms"]["p50"]
    return value


def p99(result: Result) -> float | None:
    """The 99th percentile of a run's latencies in ms; None where it has too few requests for one."""
    value: float | None = result["metrics"]["latency_ms"]["p99"]
    return value


def _row(label: str, turns: Sequence[Turn], first: Sequence[Turn] | None) -> dict[str, Any]:
    found = [turn.result for turn in turns]
    rates = [throughput(result) for result in found]
    placed = {key: found[0][key] for key in ("engine", "device", "provider", "precision")}
    placed |= {f"{key}_reason": found[0].get(f"{key}_reason") for key, value in placed.items() if value is None}
    return {
        "label": label,
        **placed,
        "rounds": len(turns),
        "latency_ms": latencies([turn.latency for turn in turns]),
        "inferences_per_s": {"mean": sum(rates) / len(rates), "ci95": mean_interval(rates)},
        "max_rate": None,
        "max_rate_reason": NOT_SEARCHED,
        "energy": _energy(found),
        "output_agreement": _agreement(found),
        "verdict": _verdict(found),
        "variation": _variations(found),
        "drift": _drift(rates),
        "ratio": _ratios(turns, first),
    }


def latencies(rounds: Sequence[Histogram]) -> dict[str, Any]:
    """Percentiles of all rounds' requests together, with intervals over the rounds; never averaged percentiles."""
    merged = merge(rounds)
    out: dict[str, Any] = {"count": merged.count}
    intervals: dict[str, Any] = {}
    for percentile in PERCENTILES:
        key, needed = percentile_key(percentile), samples_needed(percentile)
        if merged.count < needed:
            out |= {key: None, f"{key}_reason": f"needs {needed} samples, has {merged.count}: raise --duration"}
        else:
            out[key] = merged.percentile(percentile)
            intervals[key] = merged_interval(rounds, percentile)
    return out | {"ci95": intervals}


def _energy(found: Sequence[Result]) -> dict[str, Any]:
    readings = [result["metrics"]["energy"] for result in found]
    unknown = next((reading for reading in readings if reading["joules_per_inference"] is None), None)
    if unknown is not None:
        return {"joules_per_inference": None, "reason": unknown["joules_per_inference_reason"]}
    inferences = sum(reading["joules"] / reading["joules_per_inference"] for reading in readings)
    total = sum(reading["joules"] for reading in readings)
    return {"joules_per_inference": total / inferences, "boundary": readings[0]["boundary"]}


def _agreement(found: Sequence[Result]) -> dict[str, Any]:
    """What the outputs of all rounds say: the largest errors, the smallest cosine, the share of equal top answers."""
    each = [result["metrics"]["accuracy"]["output_agreement"] for result in found]
    checked = [agreement for agreement in each if agreement["checked"]]
    if not checked:
        return {"checked": 0, "reason": each[0].get("max_abs_error_reason", "no golden request was answered")}
    count = sum(agreement["checked"] for agreement in checked)
    top1 = [a["top1_agreement"] for a in checked]
    out: dict[str, Any] = {"checked": count}
    for key, worst in (("max_abs_error", max), ("max_rel_error", max), ("cosine_min", min)):
        values = [agreement[key] for agreement in checked]
        out[key] = None if None in values else worst(values)
    out["top1_agreement"] = None if None in top1 else sum(a["checked"] * a["top1_agreement"] for a in checked) / count
    return out


def _verdict(found: Sequence[Result]) -> dict[str, Any]:
    wrong = [unmet(result) for result in found]
    # The round with the fewest requests needs the longest --duration.
    invalid = [(result, names) for result, names in zip(found, wrong, strict=True) if names]
    least, names = min(invalid, key=lambda pair: int(pair[0]["metrics"]["latency_ms"]["count"]), default=(None, []))
    constraints = least["verdict"]["constraints"] if least else []
    remedies = [constraint["remedy"] for constraint in constraints if constraint["name"] in names]
    return {
        "valid": not invalid,
        "valid_rounds": len(found) - len(invalid),
        "unsteady_rounds": sum(unsteady(result) for result in found),
        "failed": dict(Counter(name for each in wrong for name in each)),
        "remedy": next(filter(None, reversed(remedies)), None),
    }


def _drift(rates: Sequence[float]) -> float | None:
    """By what share the throughput changed from the first round to the last, where it went one way all along."""
    return rates[-1] / rates[0] - 1 if has_trend(rates) and rates[0] else None


def _variations(found: Sequence[Result]) -> dict[str, Any]:
    """Coefficient of variation over the rounds, as AIBench reports run-to-run variation."""
    out: dict[str, Any] = {
        "p50": variation([p50(result) for result in found]),
        "inferences_per_s": variation([throughput(result) for result in found]),
    }
    if None in out.values():
        out["reason"] = f"needs {MINIMUM_REPEATS} rounds, each with enough requests for the figure; has {len(found)}"
    return out


def _ratios(turns: Sequence[Turn], first: Sequence[Turn] | None) -> dict[str, Any]:
    """This engine to the first, from the rounds that both have."""
    if first is None:
        names = ("p50", "p99", "inferences_per_s", "max_rate")
        return {**dict.fromkeys(names), "reason": "the others are held against this one"}
    base = {turn.round: turn.result for turn in first}
    both = [(turn.result, base[turn.round]) for turn in turns if turn.round in base]
    out: dict[str, Any] = {"of_invalid_runs": any(unmet(result) for pair in both for result in pair)}
    figures: dict[str, Callable[[Result], float | None]] = {"p50": p50, "p99": p99, "inferences_per_s": throughput}
    for name, figure in figures.items():
        ratio = _ratio([(figure(one), figure(other)) for one, other in both])
        out[name] = ratio and ratio.to_dict()
        if ratio is None:
            out[f"{name}_reason"] = "a round lacks the figure, or there is no whole round of both"
    if len(both) < MINIMUM_PAIRS:
        out["ci95_reason"] = f"needs {MINIMUM_PAIRS} rounds, has {len(both)}: raise --pairs"
    return {**out, "max_rate": None, "max_rate_reason": NOT_SEARCHED}


def _ratio(pairs: Sequence[tuple[float | None, float | None]]) -> Ratio | None:
    known = [(one, other) for one, other in pairs if one and other]
    return ratio_of_pairs(known) if known and len(known) == len(pairs) else None


def document(
    opened: Mapping[str, Any],
    turns: Sequence[Turn],
    labels: Sequence[str],
    highest: Mapping[str, HighestRate],
    partial: str | None,
) -> dict[str, Any]:
    """The whole comparison, as comparison.json holds it.

    `opened` is what was known before the first turn, `highest` what is known of a label's highest rate, and `partial`
    why it is not whole.
    """
    found = rows(turns, labels)
    for row in found:
        configuration = opened["configurations"].get(row["label"])
        reason = None if configuration else "a server that runs already has its own"
        row |= {"configuration": configuration, "configuration_reason": reason}
        rate, first = highest.get(row["label"]), highest.get(labels[0])
        if rate is not None:
            row |= {"max_rate": rate.to_dict(), "max_rate_reason": rate.reason}
        if rate is not None and first is not None and row["label"] != labels[0]:
            row["ratio"] |= rate.against(first)
    whole = [sum(not turn.result["partial"] for turn in turns if turn.label == label) for label in labels]
    return {
        **opened,
        "baseline": labels[0],
        "scenario": turns[0].result["scenario"] if turns else None,
        "rounds_done": min(whole),
        "rows": found,
        "turns": [turn.to_dict() for turn in turns],
        "partial": partial is not None,
        "partial_reason": partial,
    }
