"""Engines side by side: what interleaved rounds of real runs say about each, and about each against the first."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from servemark.compare.interleaved.turn import Turn, disturbed, longer_runs, measured_s, throughput, unmet, unsteady
from servemark.compare.quality import against_full, agreement_of, quality_of
from servemark.figures.registry import count_of, value_of, why_unknown
from servemark.results.objectives import MET
from servemark.results.schema.comparison import (
    ComparisonDocument,
    ComparisonHeader,
    ComparisonRow,
    MergedLatency,
    RowEnergy,
    RowFootprint,
    RowInFlight,
    RowRatios,
    RowVerdict,
    Variations,
)
from servemark.results.schema.header import reason_of
from servemark.results.schema.run import Result
from servemark.search.refinement import HighestRate
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import percentile_key, samples_needed
from servemark.stats.ratios import (
    MINIMUM_LOOK,
    MINIMUM_PAIRS,
    MINIMUM_REPEATS,
    RatioFigures,
    anytime_ratio,
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

PERCENTILES = (50.0, 90.0, 99.0)
EQUAL = 0.02
"""An engine is equal to the first where the interval of the ratio lies within this of 1."""
NOT_SEARCHED = "not searched for: --max-rate --slo p99:MS"

_UNSAID = "the run does not say why"


def rows(turns: Sequence[Turn], labels: Sequence[str], *, anytime: bool = False) -> list[ComparisonRow]:
    """One row for each engine that has a whole run, the first being what the others are compared with.

    `anytime`: the number of rounds depends on what they found, so the ratios' tests must hold at every look.
    """
    whole = {label: [t for t in turns if t.label == label and not t.result["partial"]] for label in labels}
    first = whole[labels[0]]
    made = [_row(own, _ratios(own, first, anytime=anytime)) for own in whole.values() if own]
    against_full(made)
    return made


def _row(turns: Sequence[Turn], ratios: RowRatios) -> ComparisonRow:
    found = [turn.result for turn in turns]
    rates = [throughput(result) for result in found]
    first_run = found[0]
    row: ComparisonRow = {
        "label": turns[0].label,
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
        "ratio": ratios,
        "configuration": None,
        "in_flight": _in_flight(found),
    }
    if footprint := _footprint(turns):
        row["footprint"] = footprint
    return row


def _footprint(turns: Sequence[Turn]) -> RowFootprint | None:
    """Combine what a server took in its turns; None where it was not started for them."""
    footprints = [turn.footprint for turn in turns if turn.footprint is not None]
    if not footprints:
        return None
    startups = [footprint.startup_s for footprint in footprints]
    memory = [footprint.memory_bytes for footprint in footprints if footprint.memory_bytes is not None]
    cores = [value_of(turn.result, "cpu.server") for turn in turns]
    used = [each * measured_s(turn.result) for each, turn in zip(cores, turns, strict=True) if each is not None]
    cpu_s = math.fsum(used) if len(used) == len(turns) else None
    answered = math.fsum(throughput(turn.result) * measured_s(turn.result) for turn in turns)
    no_cpu = "a round does not know the server's CPU time"
    return {
        "startup_s": sum(startups) / len(startups),
        "startup_s_ci95": mean_interval(startups, least=0.0),
        "cpu_s": or_unknown(cpu_s, no_cpu),
        "cpu_ms_per_inference": or_unknown(1e3 * cpu_s / answered if cpu_s is not None and answered else None, no_cpu),
        "memory_bytes": or_unknown(max(memory, default=None), "the server's processes cannot be seen from here"),
    }


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
        "p50": variation([value_of(result, "latency.p50") for result in found]),
        "inferences_per_s": variation([throughput(result) for result in found]),
    }
    if out["p50"] is not None and out["inferences_per_s"] is not None:
        return out
    out["reason"] = f"needs {MINIMUM_REPEATS} rounds, each with enough requests for the figure; has {len(found)}"
    return out


def _ratios(turns: Sequence[Turn], first: Sequence[Turn], *, anytime: bool) -> RowRatios:
    """Compare an engine with the first, by the rounds that both have."""
    if turns is first:
        return {
            "p50": None,
            "p99": None,
            "inferences_per_s": None,
            "max_rate": None,
            "reason": "the baseline: the others are compared with it",
        }
    base = {turn.round: turn.result for turn in first}
    both = [(turn.result, base[turn.round]) for turn in turns if turn.round in base]
    test, needed = (anytime_ratio, MINIMUM_LOOK) if anytime else (ratio_of_pairs, MINIMUM_PAIRS)

    def ratio_of(tag: str) -> RatioFigures | None:
        pairs = [(value_of(one, tag), value_of(other, tag)) for one, other in both]
        known = [(one, other) for one, other in pairs if one and other]
        if not known or len(known) < len(pairs):
            return unknown("a round lacks the figure, or there is no whole round of both")
        # Latencies lie in a histogram's slots.
        slack = max(map(Histogram.resolution, min(known))) if tag.startswith("latency.") else 0.0
        return test(known, slack=slack).to_dict()

    ratios: RowRatios = {
        "of_invalid_runs": any(unmet(result) for pair in both for result in pair),
        "p50": ratio_of("latency.p50"),
        "p99": ratio_of("latency.p99"),
        "inferences_per_s": ratio_of("throughput.inferences"),
        "max_rate": unknown(NOT_SEARCHED),
    }
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


def decided(document: ComparisonDocument) -> bool:
    """Tell whether each engine is told apart from the baseline by its median and its throughput, or equal to it."""
    found = [row["ratio"] for row in document["rows"] if row["label"] != document["baseline"]]
    return all(_decided(ratio["p50"]) and _decided(ratio["inferences_per_s"]) for ratio in found)


def _decided(ratio: RatioFigures | None) -> bool:
    if ratio is None or ratio["ci95"] is None:
        return False
    low, high = ratio["ci95"]
    return bool(ratio["significant"]) or (low >= 1 - EQUAL and high <= 1 + EQUAL)
