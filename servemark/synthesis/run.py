"""Makes a synthetic network from traced layers, writes it, and holds its layers and times against the given ones."""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

from kernels.families import attention, convolution, embedding, fully_connected, gemm, layer_norm, recurrent
from kernels.families.activation import Activation
from kernels.measurement.device import Device
from kernels.tracing.calls import Call
from kernels.tracing.workload import trace_apart
from servemark.characterise.run import ENGINE_S, batches_beside_one, timed_apart
from servemark.compare.interleaved.contenders import Contender, parse_contenders
from servemark.documents.commands.understand import Synthesise
from servemark.errors import OptionError
from servemark.machine.own_process import ERRORS, words
from servemark.output import note
from servemark.profiling.document import engine_profile
from servemark.profiling.measure import Order
from servemark.quantities import duration_text, figure
from servemark.repository.entry import FULL
from servemark.results import directory as results
from servemark.results.schema.header import opening
from servemark.results.schema.suite import (
    Candidate,
    CategoryShare,
    HeldOut,
    KindMatch,
    Synthesis,
    TimedContext,
    Total,
)
from servemark.runs.server import export_where_needed
from servemark.stats.unknown import explained, or_unknown, unknown
from servemark.synthesis.layers import (
    KINDS,
    Attention,
    Convolution,
    Dense,
    Embedding,
    Layer,
    Layers,
    Norm,
    Recurrent,
    SequenceLayer,
)
from servemark.synthesis.network import written
from servemark.synthesis.plan import STEPS, Chain, Target, ordered, search_chain, search_layers, total
from servemark.workload import get
from servemark.workload.registry import WORKLOADS, check_name

FEWEST_CONTEXTS = 3
ROUNDS_S = 3.0
Context = tuple[str, int]
"""Engine and batch size."""
Times = dict[Context, float]
"""Context -> time (ms)."""
Shares = dict[tuple[str, str], float]
"""Engine and category -> share of the time."""
YARDSTICKS = ("synnet", "synnet_3c")
"""AI Matrix's own generated networks, which are held against the same workloads where convolutions do most."""
MOST_LEFT_OUT = 0.5
TRACE_S, SEARCH_S = 15.0, 15.0
"""About how long a workload takes to trace, and a kind of layer to be searched (s)."""


def layers_of(name: str) -> Layers:
    """Trace a workload once, in a process of its own. Raises OptionError, ServerError."""
    return found_in(name, trace_apart(name, 1, Device.named("cpu"), timed=False).calls)


def found_in(name: str, calls: Sequence[Call]) -> Layers:
    """Find the layers. Calls with the same weights and sizes are one layer; each convolution is one of its own.

    A product without weights is half of an attention where the next one takes its shape.
    """
    whole = covered = 0
    found: dict[object, Layer] = {}
    owned: set[str] = set()
    before: object = None
    scores: gemm.Gemm | None = None
    for index, number, kernel, names in _kernels(calls):
        flops = kernel.full_flops() if isinstance(kernel, recurrent.Recurrent) else kernel.flops()
        whole += flops
        layer = _layer(kernel, names)
        alone = isinstance(layer, Convolution) or not names
        key: object = (index if alone else names, number, kernel)
        if layer is None and isinstance(kernel, gemm.Gemm):
            scores, first = kernel, scores
            layer = _attended(first, kernel)
            if layer is None:
                continue
            flops, scores = layer.flops, None
        if layer is None:
            continue
        covered += flops
        if isinstance(layer, Attention):
            key = (before, number, layer)
        else:
            before, scores = key, None
        if key in found:
            found[key] = replace(found[key], calls=found[key].calls + 1)
            continue
        if isinstance(layer, Dense | Embedding) and owned & {*names}:
            layer = replace(layer, tied=True)
        if isinstance(layer, Dense):
            layer = replace(layer, activation=_activation(calls[index + 1 : index + 2], layer))
        owned |= {*names}
        found[key] = replace(layer, place=index / len(calls))
    return Layers(name, tuple(found.values()), 1 - covered / max(whole, 1))


def _kernels(calls: Sequence[Call]) -> Iterator[tuple[int, int, Any, tuple[str, ...]]]:
    """Yield each kernel with the number of its call, its own within that, and the names of the call's parameters."""
    for index, call in enumerate(calls):
        for number, case in enumerate(call.cases):
            yield index, number, case.kernel, call.parameters


def _layer(kernel: Any, names: Sequence[str]) -> Layer | None:
    """Describe a kernel as a layer; None where it is not one alone."""
    found: Layer | None = None
    match kernel:
        case convolution.Convolution(direction="forward") if len(kernel.size) == 2:
            across = [
                max(round(math.sqrt(each[0] * each[1])), 1) for each in (kernel.filter, kernel.stride, kernel.size)
            ]
            found = Convolution(across[0], across[1], kernel.c, kernel.k, across[2], kernel.groups)
        case fully_connected.FullyConnected():
            found = Dense(kernel.batch, kernel.inputs, kernel.outputs)
        case gemm.Gemm(batch=1) if names:
            found = Dense(kernel.n, kernel.k, kernel.m)
        case recurrent.Recurrent(direction="forward"):
            found = Recurrent(kernel.cell, kernel.timesteps * kernel.batch, kernel.width, kernel.hidden)
        case attention.Attention():
            found = Attention(kernel.batch * kernel.heads, kernel.queries, kernel.keys, kernel.width)
        case embedding.Embedding() if names:
            found = Embedding(kernel.rows, kernel.width, kernel.lookups)
        case layer_norm.LayerNorm():
            found = Norm(kernel.rows, kernel.width)
    return found


def _attended(first: gemm.Gemm | None, second: gemm.Gemm) -> Attention | None:
    """Join queries by keys and weights by values; None where the second product is of other sizes."""
    if first is None or (second.batch, second.n, second.k, second.m) != (first.batch, first.n, first.m, first.k):
        return None
    return Attention(first.batch, first.n, first.m, first.k)


def _activation(after: Sequence[Call], layer: Dense) -> str:
    """Name the function that the next call applies to all that a layer wrote; "" for none."""
    kernels = [case.kernel for call in after for case in call.cases]
    match kernels:
        case [Activation(length=length, function=function)] if length == layer.rows * layer.outputs:
            return str(function)
    return ""


class Timing:
    """Times the network, the given and the held-out workloads on each engine, at each batch size."""

    def __init__(self, options: Synthesise) -> None:
        """Read the options. Raises OptionError."""
        self._options = options
        self._contenders = parse_contenders(options.engines, FULL)
        self._batches = batches_beside_one(options.batches)
        self._beside = [*options.workloads, *options.held_out]

    def about_s(self) -> float:
        """Return about how long it takes (s), exports left out."""
        return (1 + len(self._beside)) * len(self._contenders) * ENGINE_S

    def measure(self, document: Synthesis) -> None:
        """Time all of them, and compare them in the document."""
        places = filter(None, [document["file"], os.environ.get(WORKLOADS)])
        times: dict[str, Times] = {}
        shares: dict[str, Shares] = {}
        with patch.dict(os.environ, {WORKLOADS: os.pathsep.join(places)}):  # for the processes that time it
            for name in [document["name"], *self._beside]:
                timed = [self._timed(name, contender) for contender in self._contenders]
                times[name] = {key: ms for found, _ in timed for key, ms in found.items()}
                shares[name] = {key: share for _, found in timed for key, share in found.items()}
        names, ours = self._options.workloads, times[document["name"]]
        given = [times[name] for name in names]
        contexts = [(contender.label, batch) for contender in self._contenders for batch in (1, *self._batches)]
        document["contexts"] = [_context(each, ours, given) for each in contexts]
        document["shares"] = _shares(shares[document["name"]], [shares[name] for name in names])
        document["held_out"] = [_held_out(name, ours, times[name]) for name in self._options.held_out]

    def _timed(self, name: str, contender: Contender) -> tuple[Times, Shares]:
        """Time one workload on one engine in a process of its own. A failure is noted, and has no times."""
        engine, repository = contender.engine, self._options.model_repository
        order = Order(name, engine, repository, precision=contender.precision, rounds_s=ROUNDS_S)
        try:
            export_where_needed([name], engine, repository, contender.precision)
            timed = timed_apart(order, self._batches)
        except ERRORS as error:
            note(f"{name} on {contender.label}: {words(error)}")
            return {}, {}
        times = {(contender.label, e["batch_size"]): e["ms"] for e in timed.batches if e["ms"] is not None}
        profile = engine_profile(engine, timed.profile, None)
        note(f"{name} on {contender.label}: {figure(times.get((contender.label, 1)))} ms")
        return times, {(contender.label, each["name"]): each["share"] for each in profile["categories"]}


@explained
def _context(key: Context, ours: Times, given: Sequence[Times]) -> TimedContext:
    known = [each[key] for each in given if key in each]
    complete = len(known) == len(given)
    return {
        "engine": key[0],
        "batch_size": key[1],
        "predicted_ms": fmean(known) if complete else unknown("one of the given workloads has no time here"),
        "measured_ms": or_unknown(ours.get(key), "the network has no time here"),
    }


def _shares(ours: Shares, given: Sequence[Shares]) -> list[CategoryShare]:
    """Compare the shares of categories that somebody spends time in."""
    keys = [key for key in ours if all(key in each for each in given)]
    found: list[CategoryShare] = [
        {"engine": engine, "category": category, "ours": ours[key], "given": fmean(each[key] for each in given)}
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


@dataclass(frozen=True)
class Made:
    """A network: its convolutions, if it has any, and its other layers in their order."""

    chain: Chain | None
    layers: tuple[SequenceLayer, ...]

    def as_layers(self, name: str) -> Layers:
        """Return all its layers."""
        convolutions = (self.chain.layers() or []) if self.chain else []
        return Layers(name, (*convolutions, *self.layers))


def synthesise(options: Synthesise) -> tuple[Path, Synthesis]:
    """Make the network and measure it; return its result directory, made once the network is there, and its document.

    Raises OptionError, ServerError.
    """
    given = options.workloads
    check_name(options.name, "--name")
    if twice := sorted({*given} & {*options.held_out}):
        raise OptionError(f"{twice[0]} is given and held out", fix="leave one out")
    for name in (*given, *options.held_out):
        get(name)  # before anything is begun
    timing = Timing(options) if options.engines else None
    about_s = len(given) * TRACE_S + SEARCH_S + (timing.about_s() if timing else 0.0)
    note(f"{len(given)} workloads: about {duration_text(about_s)}{', missing exports on top' if timing else ''}")
    known = [_traced(name) for name in given]
    begun = time.monotonic()
    made = make(known, options.seed)
    spent_s = time.monotonic() - begun
    found = made.as_layers(options.name)
    note(f"{options.name}: {_counted(found)}, found in {spent_s:.0f} s")
    folder = results.new_directory(options.out, f"synthesis-{options.name}")
    file = folder / f"{options.name}.py"
    command = f"{' '.join(given)} --name {options.name} --seed {options.seed}"
    file.write_text(written(options.name, made.chain, made.layers, given, command))
    flops = {kind: sum(total(each.of(kind), "flops") for each in known) for kind in KINDS}
    mostly_convolutions = flops[Convolution] > sum(flops.values()) / 2
    held = [found, *(layers_of(name) for name in YARDSTICKS if name not in given and mostly_convolutions)]
    document: Synthesis = {
        **opening(),
        "kind": "synthesis",
        "name": options.name,
        "file": str(file),
        "given": [*given],
        "left_out": {each.workload: each.left_out for each in known},
        "seed": options.seed,
        "search_s": spent_s,
        "candidates": [candidate(each, known) for each in held],
        "contexts": [],
        "shares": [],
        "held_out": [],
    }
    results.write(folder, document)
    if timing:
        timing.measure(document)
        results.write(folder, document)
    return folder, document


def make(given: Sequence[Layers], seed: int, *, steps: int = STEPS) -> Made:
    """Search the layers of each kind that the given workloads have."""
    chain: Chain | None = None
    others: list[SequenceLayer] = []
    for kind in kinds_of(given):
        if issubclass(kind, SequenceLayer):
            others += search_layers(given, kind, seed, beside=others, steps=steps)
        else:
            chain = search_chain(given, seed, steps=steps)
    return Made(chain, ordered(others))


def kinds_of(given: Sequence[Layers]) -> list[type[Layer]]:
    """Return the kinds of layers that any of the workloads has."""
    return [kind for kind in KINDS if any(each.of(kind) for each in given)]


def candidate(network: Layers, given: Sequence[Layers]) -> Candidate:
    """Hold a network against the given workloads by each kind of layer."""
    whole = sum(fmean(total(each.of(kind), "flops") for each in given) for kind in KINDS)
    return {"name": network.workload, "kinds": [_matched(network, given, kind, whole) for kind in kinds_of(given)]}


def _matched(network: Layers, given: Sequence[Layers], kind: type[Layer], whole_flops: float) -> KindMatch:
    """Hold the layers of one kind against theirs, at as many quantiles as there are."""
    ours = network.of(kind)
    target = Target.of(given, kind, len(ours))
    totals: list[Total] = [
        {"name": name, "ours": total(ours, name), "given": theirs} for name, theirs in target.totals.items() if theirs
    ]
    distances = [(feature, *target.distances(ours, feature)) for feature in kind.FEATURES] if ours else []
    return {
        "kind": kind.KIND,
        "layers": len(ours),
        "given_layers": fmean(len(each.of(kind)) for each in given),
        "flops_share": target.totals["flops"] / whole_flops if whole_flops else 0.0,
        "distances": [
            {"feature": feature, "wasserstein": far, "kolmogorov_smirnov": apart} for feature, far, apart in distances
        ],
        "totals": totals,
    }


def _counted(layers: Layers) -> str:
    counts = {kind.KIND: len(layers.of(kind)) for kind in KINDS}
    return ", ".join(f"{count} of {kind}" for kind, count in counts.items() if count)


def _traced(name: str) -> Layers:
    found = layers_of(name)
    note(f"{name}: {_counted(found) or 'no layers'}")
    if not found.layers or found.left_out > MOST_LEFT_OUT:
        kinds = ", ".join(kind.KIND for kind in KINDS)
        raise OptionError(
            f"{found.left_out:.0%} of {name}'s operations lie in layers that a synthetic network does not have",
            fix=f"give networks whose operations lie in these: {kinds}",
        )
    return found
