"""Engines side by side: what interleaved rounds of real runs say about each, and about each against the first."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from servemark.compare.interleaved.hosting import Footprint, combined
from servemark.compare.interleaved.validity import disturbed, unmet, unsteady
from servemark.compare.quality import against_full, agreement_of, quality_of
from servemark.figures.registry import count_of, value_of, why_unknown
from servemark.results import directory as results
from servemark.results.objectives import MET
from servemark.results.schema.comparison import (
    ComparisonDocument,
    ComparisonHeader,
    ComparisonRow,
    ComparisonTurn,
    MergedLatency,
    RowEnergy,
    RowInFlight,
    RowRatios,
    RowVerdict,
    Variations,
)
from servemark.results.schema.header import reason_of
from servemark.results.schema.run import Result
from servemark.search.max_rate.refinement import HighestRate
from servemark.stats.anytime import MINIMUM_LOOK, anytime_ratio
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import percentile_key, samples_needed
from servemark.stats.ratios import (
    MINIMUM_PAIRS,
    MINIMUM_REPEATS,
    Ratio,
    RatioFigures,
    holm,
    mean_interval,
    merge,
    merged_interval,
    quotient_interval,
    ratio_of_pairs,
    variation,
)
from servemark.stats.trend import has_trend
from servemark.stats.unknown import explained, or_unknown, unknown

COMPARISON_FILE = "comparison.json"
PERCENTILES = (50.0, 90.0, 99.0)
SPARE = 1.1
NOT_SEARCHED = "not searched for: --max-rate --slo p99:MS"

_UNSAID = "the run does not say why"


class RatioOf(Protocol):
    """Ratio of two sides over interleaved pairs, with its interval and test."""

    def __call__(self, pairs: Sequence[tuple[float, float]], *, slack: float) -> Ratio:
        """Return the ratio; values may be off by the share `slack` because they are rounded."""


@dataclass(frozen=True)
class Turn:
    """One run of one engine in one round, counted from 1, with its latencies."""

    round: int
    label: str
    directory: str
    result: Result
    latency: Histogram
    footprint: Footprint | None = None
    """Of a server that was started for this turn."""

    @classmethod
    def read(cls, number: int, label: str, directory: Path) -> "Turn":
        """Read a result directory. Raises ResultError."""
        result = results.read_run(directory)
        return cls(number, label, directory.name, result, results.read_latency(directory, result))

    def to_dict(self) -> ComparisonTurn:
        """As comparison.json lists it."""
        wrong = unmet(self.result)
        found: ComparisonTurn = {
            "round": self.round,
            "label": self.label,
            "directory": self.directory,
            "seed": self.result["seed"],
            "partial": self.result["partial"],
            "valid": not wrong,
            "failed": wrong,
            "objective": self.result["verdict"]["objective"],
            "unsteady": unsteady(self.result),
            "disturbed": disturbed(self.result),
            "p50_ms": p50(self.result),
            "inferences_per_s": throughput(self.result),
        }
        if self.footprint is not None:
            found["startup_s"], found["memory_bytes"] = self.footprint.startup_s, self.footprint.memory_bytes
        return found


def rows(turns: Sequence[Turn], labels: Sequence[str], *, anytime: bool = False) -> list[ComparisonRow]:
    """One row for each engine that has a whole run, the first being what the others are compared with.

    `anytime`: the number of rounds depends on what they found, so the ratios' tests must hold at every look.
    """
    whole = {label: [t for t in turns if t.label == label and not t.result["partial"]] for label in labels}
    first = whole[labels[0]]
    ratios = functools.partial(_ratios, ratio=anytime_ratio if anytime else ratio_of_pairs)
    made = [
        _row(label, whole[label], first if label != labels[0] else None, ratios) for label in labels if whole[label]
    ]
    against_full(made)
    return made


def throughput(result: Result) -> float:
    """Inferences/s of a run; 0 where it measured nothing."""
    return value_of(result, "throughput.inferences") or 0.0


def measured_s(result: Result) -> float:
    """Measured seconds of a run; as many as were asked for where it does not say."""
    scenario = result["scenario"]
    return scenario["measured_s"] or scenario["duration_s"]


def longer_runs(needed: int, count: int, length_s: float) -> str:
    """Return the --duration that gives `needed` requests, with a tenth to spare, if `length_s` gave `count`."""
    return f"--duration {math.ceil(SPARE * length_s * needed / count)}" if count else "nothing was answered"


def p50(result: Result) -> float | None:
    """Median latency of a run in ms; None where it has too few requests for one."""
    return value_of(result, "latency.p50")


def p99(result: Result) -> float | None:
    """The 99th percentile of a run's latencies in ms; None where it has too few requests for one."""
    return value_of(result, "latency.p99")


def _row(
    label: str,
    turns: Sequence[Turn],
    first: Sequence[Turn] | None,
    ratios: Callable[[Sequence[Turn], Sequence[Turn] | None], RowRatios],
) -> ComparisonRow:
    found = [turn.result for turn in turns]
    rates = [throughput(result) for result in found]
    first_run = found[0]
    row: ComparisonRow = {
        "label": label,
        "engine": or_unknown(first_run["engine"], reason_of(first_run, "engine") or _UNSAID),
        "device": or_unknown(first_run["device"], reason_of(first_run, "device") or _UNSAID),
        "provider": or_unknown(first_run["provider"], reason_of(first_run, "provider") or _UNSAID),
        "precision": or_unknown(first_run["precision"], reason_of(first_run, "precision") or _UNSAID),
        "rounds": len(turns),
        "latency_ms": latencies([turn.latency for turn in turns], max(map(measured_s, found))),
        "inferences_per_s": {"mean": sum(rates) / len(rates), "ci95": mean_interval(rates, least=0.0)},
        "max_rate": unknown(NOT_SEARCHED),
        "energy": _energy(found),
        "output_agreement": agreement_of(found),
        "quality": quality_of(found),
        "verdict": _verdict(found),
        "variation": _variations(found),
        "drift": rates[-1] / rates[0] - 1 if has_trend(rates) and rates[0] else None,
        "ratio": ratios(turns, first),
        "configuration": None,
        "in_flight": _in_flight(found),
    }
    footprints = [turn.footprint for turn in turns if turn.footprint is not None]
    if footprints:
        answered = math.fsum(throughput(result) * measured_s(result) for result in found)
        row["footprint"] = combined(footprints, _server_cpu_s(found), answered)
    return row


def _server_cpu_s(found: Sequence[Result]) -> float | None:
    """Add up the CPU time of the server in all rounds; None where a round does not know it."""
    cores = [value_of(result, "cpu.server") for result in found]
    known = [used * measured_s(result) for used, result in zip(cores, found, strict=True) if used is not None]
    return math.fsum(known) if len(known) == len(found) else None


def _in_flight(found: Sequence[Result]) -> RowInFlight | None:
    """Mean answered requests in flight by Little's law; unknown for a closed loop, or where a round has no answer."""
    means: list[float] = []
    for result in found:
        rate, latency = value_of(result, "throughput.requests"), value_of(result, "latency.mean")
        if value_of(result, "throughput.scheduled") is None:
            return unknown("a closed loop: the load itself sets it")
        if rate is None or latency is None:
            return unknown("a round has no good answers")
        means.append(rate * latency / 1000)
    most = max(count_of(result, "generator.max_in_flight") for result in found)
    return {"mean": math.fsum(means) / len(means), "ci95": mean_interval(means, least=0.0), "most": most}


def latencies(rounds: Sequence[Histogram], length_s: float) -> MergedLatency:
    """Percentiles of all rounds' requests together, with intervals over the rounds; never averaged percentiles.

    `length_s` is how long a round measured.
    """
    merged = merge(rounds)

    def percentile_of(percentile: float) -> float | None:
        needed = samples_needed(percentile)
        if merged.total >= needed:
            return merged.supported(percentile)
        longer = longer_runs(needed, merged.total, length_s)
        return unknown(f"needs {needed:,} samples, has {merged.total:,}: {longer}")

    return {
        "count": merged.count,
        "p50": percentile_of(50),
        "p90": percentile_of(90),
        "p99": percentile_of(99),
        "ci95": {percentile_key(p): merged_interval(rounds, p) for p in PERCENTILES if merged.supports(p)},
    }


def _energy(found: Sequence[Result]) -> RowEnergy:
    parts: list[tuple[float, float]] = []
    for result in found:
        joules, each = value_of(result, "energy.total"), value_of(result, "energy.per_inference")
        if joules is None or each is None:
            return {"joules_per_inference": None, "reason": why_unknown(result, "energy.per_inference")}
        parts.append((joules, joules / each))
    total, inferences = (math.fsum(each) for each in zip(*parts, strict=True))
    return {
        "joules_per_inference": total / inferences,
        "ci95": quotient_interval(parts),
        "boundary": found[0]["details"]["energy"]["boundary"] or "",
    }


def _verdict(found: Sequence[Result]) -> RowVerdict:
    wrong = [unmet(result) for result in found]
    # The round with the fewest requests needs the longest --duration.
    invalid = [(result, names) for result, names in zip(found, wrong, strict=True) if names]
    remedies: list[str] = []
    if invalid:
        fewest, names = min(invalid, key=lambda pair: count_of(pair[0], "requests.answered"))
        remedies = [each["remedy"] for each in fewest["verdict"]["constraints"] if each["name"] in names]
    statuses = [result["verdict"]["objective"] for result in found]
    return {
        "valid": not invalid,
        "valid_rounds": len(found) - len(invalid),
        "unsteady_rounds": sum(unsteady(result) for result in found),
        "disturbed_rounds": sum(disturbed(result) for result in found),
        "other_cpu_share": max(value_of(result, "cpu.other_share") or 0.0 for result in found),
        "failed": dict(Counter(name for each in wrong for name in each)),
        "remedy": next(filter(None, reversed(remedies)), None),
        "objective_missed": sum(status != MET for status in statuses) if any(statuses) else None,
    }


def _variations(found: Sequence[Result]) -> Variations:
    """Coefficient of variation over the rounds, as AIBench reports run-to-run variation."""
    out: Variations = {
        "p50": variation([p50(result) for result in found]),
        "inferences_per_s": variation([throughput(result) for result in found]),
    }
    if out["p50"] is not None and out["inferences_per_s"] is not None:
        return out
    out["reason"] = f"needs {MINIMUM_REPEATS} rounds, each with enough requests for the figure; has {len(found)}"
    return out


def _ratios(turns: Sequence[Turn], first: Sequence[Turn] | None, *, ratio: RatioOf) -> RowRatios:
    """This engine to the first, from the rounds that both have."""
    if first is None:
        return {
            "p50": None,
            "p99": None,
            "inferences_per_s": None,
            "max_rate": None,
            "reason": "the baseline: the others are compared with it",
        }
    base = {turn.round: turn.result for turn in first}
    both = [(turn.result, base[turn.round]) for turn in turns if turn.round in base]

    def ratio_of(figure: Callable[[Result], float | None]) -> RatioFigures | None:
        pairs = [(figure(one), figure(other)) for one, other in both]
        known = [(one, other) for one, other in pairs if one and other]
        if not known or len(known) < len(pairs):
            return unknown("a round lacks the figure, or there is no whole round of both")
        # Latencies lie in a histogram's slots.
        slack = 0.0 if figure is throughput else max(map(Histogram.resolution, min(known)))
        return ratio(known, slack=slack).to_dict()

    ratios: RowRatios = {
        "of_invalid_runs": any(unmet(result) for pair in both for result in pair),
        "p50": ratio_of(p50),
        "p99": ratio_of(p99),
        "inferences_per_s": ratio_of(throughput),
        "max_rate": unknown(NOT_SEARCHED),
    }
    needed = MINIMUM_LOOK if ratio is anytime_ratio else MINIMUM_PAIRS
    if len(both) < needed:
        ratios["ci95_reason"] = f"needs {needed} rounds, has {len(both)}: raise --rounds"
    return ratios


@explained
def document(
    opened: ComparisonHeader,
    turns: Sequence[Turn],
    labels: Sequence[str],
    highest: Mapping[str, HighestRate],
    partial: str | None,
) -> ComparisonDocument:
    """The whole comparison, as comparison.json holds it.

    `opened` is what was known before the first turn, `highest` what is known of a label's highest rate, and `partial`
    why it is not whole.
    """
    whole = [sum(not turn.result["partial"] for turn in turns if turn.label == label) for label in labels]
    made = rows(turns, labels, anytime="until_decided" in opened)
    for row in made:
        _add_rate(row, opened, labels[0], highest)
    # All ratios are one family: of many equal engines some ratio would differ by luck.
    ratios = [ratio for row in made for ratio in row["ratio"].values() if isinstance(ratio, dict)]
    tested = [ratio for ratio in ratios if ratio["p_value"] is not None]
    for ratio, significant in zip(tested, holm([ratio["p_value"] for ratio in tested]), strict=True):
        ratio["significant"] = significant
    rates = [rate for turn in turns if (rate := value_of(turn.result, "throughput.scheduled")) is not None]
    return {
        **opened,
        "baseline": labels[0],
        "load": turns[0].result["request"]["load"] if turns else None,
        "scenario": turns[0].result["scenario"] if turns else None,
        "scheduled_rate": math.fsum(rates) / len(rates) if rates else None,
        "rounds_done": min(whole),
        "rows": made,
        "turns": [turn.to_dict() for turn in turns],
        "spent_s": 0.0,
        "partial": partial is not None,
        "partial_reason": partial,
    }


def _add_rate(row: ComparisonRow, opened: ComparisonHeader, baseline: str, highest: Mapping[str, HighestRate]) -> None:
    """Add its configuration and its highest rate to an engine's row."""
    configuration = opened["configurations"].get(row["label"])
    row["configuration"] = or_unknown(configuration, "a server that was already running has its own")
    rate, first = highest.get(row["label"]), highest.get(baseline)
    if rate is None:
        return
    row["max_rate"], row["max_rate_reason"] = rate.to_dict(), rate.reason
    if first is not None and row["label"] != baseline:
        row["ratio"]["max_rate"] = rate.against(first)
