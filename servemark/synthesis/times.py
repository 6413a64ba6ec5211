"""Times of a synthetic network beside those of the workloads that it was made of, and of others."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from servemark.characterise.measure import ENGINE_S, measure_batches
from servemark.compare.interleaved.contenders import Contender, parse_contenders
from servemark.documents.commands.understand import Synthesise
from servemark.machine.own_process import ERRORS, apart, words
from servemark.output import note
from servemark.profiling.document import engine_profile
from servemark.profiling.measure import Order as Profiled
from servemark.quantities import figure, whole
from servemark.repository.entry import FULL
from servemark.results.schema.synthesis import CategoryShare, HeldOut, Synthesis, TimedContext
from servemark.runs.entries import export_where_needed
from servemark.stats.unknown import explained, or_unknown, unknown
from servemark.synthesis.match import mean
from servemark.workload import get
from servemark.workload.registry import WORKLOADS

STEP_S = 900.0
FEWEST_CONTEXTS = 3
ROUNDS_S = 3.0
Context = tuple[str, int]
"""Engine and batch size."""
Times = dict[Context, float]
"""Context -> time (ms)."""
Shares = dict[tuple[str, str], float]
"""Engine and category -> share of the time."""


@dataclass(frozen=True)
class Order:
    """The workloads, engines and batch sizes that are timed."""

    given: Sequence[str]
    held_out: Sequence[str]
    contenders: Sequence[Contender]
    batches: Sequence[int]
    repository: Path

    @classmethod
    def of(cls, given: Sequence[str], options: Synthesise, repository: Path) -> Self:
        """Read it from the options. Raises OptionError."""
        asked = options.batches
        batches = [] if asked == "none" else [whole("--batches", each, 2) for each in asked.split(",")]
        for name in options.held_out:
            get(name)  # before anything is begun
        return cls(given, options.held_out, parse_contenders(options.engines, FULL), batches, repository)

    def about_s(self) -> float:
        """Return about how long it takes (s), exports left out."""
        return (1 + len(self.given) + len(self.held_out)) * len(self.contenders) * ENGINE_S

    def measure(self, document: Synthesis) -> None:
        """Time the network, the given and the held-out workloads on each engine, and compare them in the document."""
        os.environ[WORKLOADS] = os.pathsep.join(filter(None, [document["file"], os.environ.get(WORKLOADS)]))
        times: dict[str, Times] = {}
        shares: dict[str, Shares] = {}
        for name in [document["name"], *self.given, *self.held_out]:
            times[name], shares[name] = {}, {}
            for contender in self.contenders:
                found_ms, found = self._timed(name, contender)
                times[name] |= found_ms
                shares[name] |= found
        ours, given = times[document["name"]], [times[name] for name in self.given]
        contexts = [(contender.label, batch) for contender in self.contenders for batch in (1, *self.batches)]
        document["contexts"] = [_context(each, ours, given) for each in contexts]
        document["shares"] = _shares(shares[document["name"]], [shares[name] for name in self.given])
        document["held_out"] = [_held_out(name, ours, times[name]) for name in self.held_out]

    def _timed(self, name: str, contender: Contender) -> tuple[Times, Shares]:
        """Time one workload on one engine in a process of its own. A failure is noted, and has no times."""
        order = Profiled(name, contender.engine, self.repository, precision=contender.precision, rounds_s=ROUNDS_S)
        try:
            export_where_needed([name], contender.engine, self.repository, contender.precision)
            sizes = [each for each in self.batches if each <= get(name).max_batch]
            timed = apart(measure_batches, order, sizes, timeout_s=STEP_S)
        except ERRORS as error:
            note(f"{name} on {contender.label}: {words(error)}")
            return {}, {}
        times = {(contender.label, e["batch_size"]): e["ms"] for e in timed.batches if e["ms"] is not None}
        profile = engine_profile(contender.engine, timed.profile, None)
        note(f"{name} on {contender.label}: {figure(times.get((contender.label, 1)))} ms")
        return times, {(contender.label, each["name"]): each["share"] for each in profile["categories"]}


@explained
def _context(key: Context, ours: Times, given: Sequence[Times]) -> TimedContext:
    known = [each[key] for each in given if key in each]
    complete = len(known) == len(given)
    return {
        "engine": key[0],
        "batch_size": key[1],
        "predicted_ms": mean(known) if complete else unknown("one of the given workloads has no time here"),
        "measured_ms": or_unknown(ours.get(key), "the network has no time here"),
    }


def _shares(ours: Shares, given: Sequence[Shares]) -> list[CategoryShare]:
    """Compare the shares of categories that somebody spends time in."""
    keys = [key for key in ours if all(key in each for each in given)]
    found: list[CategoryShare] = [
        {"engine": engine, "category": category, "ours": ours[key], "given": mean(each[key] for each in given)}
        for key in keys
        for engine, category in [key]
    ]
    return [each for each in found if each["ours"] or each["given"]]


@explained
def _held_out(name: str, ours: Mapping[Context, float], theirs: Mapping[Context, float]) -> HeldOut:
    """Correlate the times of a sample over engines, precisions and batch sizes."""
    from scipy.stats import kendalltau

    both = sorted(ours.keys() & theirs.keys())
    if len(both) < FEWEST_CONTEXTS:
        return {"workload": name, "rank_correlation": unknown(f"{len(both)} contexts have both times")}
    tau = kendalltau([ours[key] / key[1] for key in both], [theirs[key] / key[1] for key in both]).statistic
    return {"workload": name, "rank_correlation": float(tau)}
