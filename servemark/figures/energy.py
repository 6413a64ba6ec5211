"""Energy of the measured interval, of what the meter has within its boundary."""

from collections.abc import Callable, Sequence

from servemark.figures.evidence import Energy, Evidence
from servemark.figures.figure import Better, Figure, Join, Part, same
from servemark.figures.value import COUNT, JOULES, WATTS, S, Unit, Value
from servemark.stats.ratios import MINIMUM_PAIRS, quotient_interval


def _per_inference(evidence: Evidence) -> Value:
    energy, inferences = evidence.energy, evidence.completed * evidence.batch_size
    if energy.joules is None or not inferences:
        return Value.unknown(energy.reason)
    ends = quotient_interval(list(energy.parts))
    if ends is None:
        needed_s = MINIMUM_PAIRS * energy.resolved_s
        reason = f"an interval needs {MINIMUM_PAIRS} parts of the run: measure for {needed_s:.2g} s or more"
        return Value(energy.joules / inferences, reason=reason)
    return Value(energy.joules / inferences, (ends[0], ends[1]))


def _per_request(evidence: Evidence) -> Value:
    energy = evidence.energy
    if energy.joules is None or not evidence.completed:
        return Value.unknown(energy.reason)
    return Value(energy.joules / evidence.completed)


def _shared(rate: str) -> Join:
    """Join the energy of one answer: every part metered the same device, so one reading is that of all answers."""

    def join(tag: str, parts: Sequence[Part]) -> Value:
        found, own = same(tag, parts), parts[0].value(rate)
        total = sum(part.value(rate) or 0.0 for part in parts)
        if found.value is None or own is None or not total:
            return found
        share = own / total
        low, high = (None if end is None else end * share for end in found.ci95 or (None, None))
        return Value(found.value * share, found.ci95 and (low, high), found.n, found.reason)

    return join


def _reading(
    name: str, unit: Unit, words: str, of: Callable[[Energy], float | None], better: Better | None = None
) -> Figure:
    def compute(evidence: Evidence) -> Value:
        return Value.of(of(evidence.energy), evidence.energy.reason)

    return Figure(f"energy.{name}", unit, words, compute, better=better, join=same, detail=True)


FIGURES = (
    Figure(
        "energy.per_inference",
        JOULES,
        "Energy of one sample.",
        _per_inference,
        better="lower",
        join=_shared("throughput.inferences"),
    ),
    Figure(
        "energy.per_request",
        JOULES,
        "Energy of one request.",
        _per_request,
        better="lower",
        join=_shared("throughput.requests"),
        detail=True,
    ),
    _reading("power", WATTS, "Mean power.", lambda energy: energy.average_w, better="lower"),
    Figure(
        "energy.idle_power",
        WATTS,
        "Mean power before the load.",
        lambda evidence: Value.of(evidence.energy.idle_w, evidence.energy.idle_reason or evidence.energy.reason),
        join=same,
        detail=True,
    ),
    _reading("total", JOULES, "Energy of the interval.", lambda energy: energy.joules),
    _reading("window", S, "How long the meter ran.", lambda energy: energy.window_s),
    _reading("readings", COUNT, "Readings of the meter.", lambda energy: energy.samples),
)
