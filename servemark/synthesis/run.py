"""Makes a synthetic network, writes it as a workload file, and holds it against what it was made of."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scipy import stats

from servemark.characterise.measure import measure_batches
from servemark.compare.interleaved.contenders import Contender, parse_contenders
from servemark.documents.commands import Synthesising
from servemark.errors import OptionError
from servemark.output import note
from servemark.profiling.document import engine_profile
from servemark.profiling.measure import Order
from servemark.profiling.run import ERRORS, apart, words
from servemark.quantities import figure, whole
from servemark.repository.entry import FULL
from servemark.results.schema.header import opening
from servemark.results.schema.synthesis import Candidate, CategoryShare, HeldOut, Synthesis, TimedContext, Total
from servemark.runs.entries import export_where_needed
from servemark.stats.unknown import explained, or_unknown, unknown
from servemark.synthesis import match
from servemark.synthesis.layers import Layer, Layers, layers_of
from servemark.synthesis.network import connected, hidden_sizes, written
from servemark.synthesis.search import search
from servemark.workload import get
from servemark.workload.registry import WORKLOADS, check_name

YARDSTICKS = ("synnet", "synnet_3c")
"""AI Matrix's own generated networks, which are held against the same workloads."""
MOST_LEFT_OUT = 0.5
STEP_S = 900.0
FEWEST_CONTEXTS = 3
ROUNDS_S = 3.0
Context = tuple[str, int]
"""Engine and batch size."""
Times = dict[str, dict[Context, float]]
"""Workload -> context -> time (ms)."""
Shares = dict[str, dict[tuple[str, str], float]]
"""Workload -> engine and category -> share of the time."""


def synthesise(given: Sequence[str], options: Synthesising, folder: Path, repository: Path) -> Synthesis:
    """Make the network; its file is written into the folder. Raises OptionError, ServerError."""
    check_name(options.name, "--name")
    if twice := sorted({*given} & {*options.held_out}):
        raise OptionError(f"{twice[0]} is given and held out", fix="leave one out")
    known = [_traced(name) for name in given]
    target = match.Target.of(known)
    begun = time.monotonic()
    chain = search(known, target, options.seed)
    spent_s = time.monotonic() - begun
    hidden = hidden_sizes(chain.width, target)
    file = folder / f"{options.name}.py"
    command = f"{' '.join(given)} --name {options.name} --seed {options.seed}"
    file.write_text(written(options.name, chain, hidden, given, command))
    note(f"{file}: {len(chain.links)} convolutions, found in {spent_s:.0f} s")
    layers = chain.layers()
    assert layers is not None
    candidates = [candidate(options.name, layers, connected(chain.width, hidden), known)]
    for name in (each for each in YARDSTICKS if each not in given):
        other = layers_of(name)
        candidates.append(candidate(name, other.convolutions, other.connected, known))
    document: Synthesis = {
        **opening(),
        "kind": "synthesis",
        "name": options.name,
        "file": str(file),
        "given": [*given],
        "left_out": {each.workload: each.left_out for each in known},
        "seed": options.seed,
        "search_s": spent_s,
        "candidates": candidates,
        "contexts": [],
        "shares": [],
        "held_out": [],
    }
    if options.engines:
        _measure(document, options, repository)
    return document


def _traced(name: str) -> Layers:
    found = layers_of(name)
    note(f"{name}: {len(found.convolutions)} convolutions, {len(found.connected)} fully connected layers")
    if not found.convolutions or found.left_out > MOST_LEFT_OUT:
        raise OptionError(
            f"{found.left_out:.0%} of {name}'s operations lie in layers that a chain of convolutions does not have",
            fix="give networks of convolutions, like googlenet vgg16 resnet50",
        )
    return found


def candidate(
    name: str, layers: Sequence[Layer], dense: Sequence[tuple[int, int]], given: Sequence[Layers]
) -> Candidate:
    """Hold a network against the given workloads, at as many quantiles as it has convolutions."""
    target = match.Target.of(given, len(layers))
    found = {feature: match.values(layers, feature) for feature in match.FEATURES}
    totals: list[Total] = [
        {"name": "convolutions", "ours": len(layers), "given": match.mean(len(each.convolutions) for each in given)},
        {"name": "their operations", "ours": sum(layer.flops for layer in layers), "given": target.flops},
        {"name": "their parameters", "ours": sum(layer.parameters for layer in layers), "given": target.parameters},
        {"name": "fully connected weights", "ours": sum(a * b for a, b in dense), "given": target.connected_parameters},
    ]
    return {
        "name": name,
        "layers": len(layers),
        "distances": [
            {
                "feature": feature,
                "wasserstein": match.wasserstein(values, target.quantiles[feature]) / target.scales[feature],
                "kolmogorov_smirnov": match.kolmogorov_smirnov(values, target.quantiles[feature]),
            }
            for feature, values in found.items()
        ],
        "totals": totals,
    }


def _measure(document: Synthesis, options: Synthesising, repository: Path) -> None:
    """Time the network, the given and the held-out workloads on each engine, and compare."""
    os.environ[WORKLOADS] = os.pathsep.join(filter(None, [document["file"], os.environ.get(WORKLOADS)]))
    batches = [] if options.batches == "none" else [whole("--batches", each, 2) for each in options.batches.split(",")]
    contenders = parse_contenders(options.engines, FULL)
    times: Times = {}
    shares: Shares = {}
    for name in [document["name"], *document["given"], *options.held_out]:
        for contender in contenders:
            _time(name, contender, batches, repository, times.setdefault(name, {}), shares.setdefault(name, {}))
    ours, given = times[document["name"]], [times[name] for name in document["given"]]
    contexts = [(contender.label, batch) for contender in contenders for batch in (1, *batches)]
    document["contexts"] = [_context(each, ours, given) for each in contexts]
    document["shares"] = _shares(shares[document["name"]], [shares[name] for name in document["given"]])
    document["held_out"] = [_held_out(name, ours, times[name]) for name in options.held_out]


def _time(
    name: str,
    contender: Contender,
    batches: Sequence[int],
    repository: Path,
    times: "dict[Context, float]",
    shares: "dict[tuple[str, str], float]",
) -> None:
    """Time one workload on one engine in a process of its own. A failure is noted, and has no times."""
    order = Order(name, contender.engine, repository, precision=contender.precision, rounds_s=ROUNDS_S)
    try:
        export_where_needed([name], contender.engine, repository, contender.precision)
        sizes = [each for each in batches if each <= get(name).max_batch]
        timed = apart(measure_batches, order, sizes, timeout_s=STEP_S)
    except ERRORS as error:
        note(f"{name} on {contender.label}: {words(error)}")
        return
    times |= {(contender.label, e["batch_size"]): e["ms"] for e in timed.batches if e["ms"] is not None}
    profile = engine_profile(contender.engine, timed.profile, None)
    shares |= {(contender.label, each["name"]): each["share"] for each in profile["categories"]}
    note(f"{name} on {contender.label}: {figure(times.get((contender.label, 1)))} ms")


@explained
def _context(key: Context, ours: Mapping[Context, float], given: Sequence[Mapping[Context, float]]) -> TimedContext:
    known = [each[key] for each in given if key in each]
    complete = len(known) == len(given)
    return {
        "engine": key[0],
        "batch_size": key[1],
        "predicted_ms": match.mean(known) if complete else unknown("one of the given workloads has no time here"),
        "measured_ms": or_unknown(ours.get(key), "the network has no time here"),
    }


def _shares(
    ours: Mapping[tuple[str, str], float], given: Sequence[Mapping[tuple[str, str], float]]
) -> list[CategoryShare]:
    """Compare the shares of categories that somebody spends time in."""
    keys = [key for key in ours if all(key in each for each in given)]
    found: list[CategoryShare] = [
        {"engine": engine, "category": category, "ours": ours[key], "given": match.mean(each[key] for each in given)}
        for key in keys
        for engine, category in [key]
    ]
    return [each for each in found if each["ours"] or each["given"]]


@explained
def _held_out(name: str, ours: Mapping[Context, float], theirs: Mapping[Context, float]) -> HeldOut:
    """Correlate the times of a sample over engines, precisions and batch sizes."""
    both = sorted(ours.keys() & theirs.keys())
    if len(both) < FEWEST_CONTEXTS:
        return {"workload": name, "rank_correlation": unknown(f"{len(both)} contexts have both times")}
    tau = stats.kendalltau([ours[key] / key[1] for key in both], [theirs[key] / key[1] for key in both]).statistic
    return {"workload": name, "rank_correlation": float(tau)}
