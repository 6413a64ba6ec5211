"""Makes a synthetic network, writes it as a workload file, and holds it against what it was made of."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servemark.documents.commands.understand import Synthesise
from servemark.errors import OptionError
from servemark.output import note
from servemark.quantities import duration_text
from servemark.results import directory as results
from servemark.results.schema.header import opening
from servemark.results.schema.synthesis import Candidate, KindMatch, Synthesis, Total
from servemark.synthesis import match, times
from servemark.synthesis.layers import KINDS, Convolution, Layer, Layers, SequenceLayer
from servemark.synthesis.network import written
from servemark.synthesis.plan import Chain, ordered
from servemark.synthesis.search import STEPS, search_chain, search_layers
from servemark.synthesis.tracing import layers_of
from servemark.workload.registry import check_name

YARDSTICKS = ("synnet", "synnet_3c")
"""AI Matrix's own generated networks, which are held against the same workloads where convolutions do most."""
MOST_LEFT_OUT = 0.5
TRACE_S, SEARCH_S = 15.0, 15.0
"""About how long a workload takes to trace, and a kind of layer to be searched (s)."""


@dataclass(frozen=True)
class Made:
    """A network: its convolutions, if it has any, and its other layers in their order."""

    chain: Chain | None
    layers: tuple[SequenceLayer, ...]

    def as_layers(self, name: str) -> Layers:
        """Return all its layers."""
        convolutions = (self.chain.layers() or []) if self.chain else []
        return Layers(name, (*convolutions, *self.layers))


def synthesise(given: Sequence[str], options: Synthesise, out: Path, repository: Path) -> tuple[Path, Synthesis]:
    """Make the network and measure it; return its result directory, made once the network is there, and its document.

    Raises OptionError, ServerError.
    """
    check_name(options.name, "--name")
    if twice := sorted({*given} & {*options.held_out}):
        raise OptionError(f"{twice[0]} is given and held out", fix="leave one out")
    order = times.Order.of(given, options, repository) if options.engines else None
    about_s = len(given) * TRACE_S + SEARCH_S + (order.about_s() if order else 0.0)
    note(f"{len(given)} workloads: about {duration_text(about_s)}{', missing exports on top' if order else ''}")
    known = [_traced(name) for name in given]
    begun = time.monotonic()
    made = make(known, options.seed)
    spent_s = time.monotonic() - begun
    found = made.as_layers(options.name)
    note(f"{options.name}: {_counted(found)}, found in {spent_s:.0f} s")
    folder = results.new_directory(out, f"synthesis-{options.name}")
    file = folder / f"{options.name}.py"
    command = f"{' '.join(given)} --name {options.name} --seed {options.seed}"
    file.write_text(written(options.name, made.chain, made.layers, given, command))
    held = [found, *(layers_of(name) for name in YARDSTICKS if name not in given and _mostly_convolutions(known))]
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
    if order:
        order.measure(document)
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
    whole = sum(match.mean(match.total(each.of(kind), "flops") for each in given) for kind in KINDS)
    return {"name": network.workload, "kinds": [_matched(network, given, kind, whole) for kind in kinds_of(given)]}


def _matched(network: Layers, given: Sequence[Layers], kind: type[Layer], whole_flops: float) -> KindMatch:
    """Hold the layers of one kind against theirs, at as many quantiles as there are."""
    ours = network.of(kind)
    target = match.Target.of(given, kind, len(ours))
    totals: list[Total] = [
        {"name": name, "ours": match.total(ours, name), "given": theirs}
        for name, theirs in target.totals.items()
        if theirs
    ]
    distances = [(feature, *target.distances(ours, feature)) for feature in kind.FEATURES] if ours else []
    return {
        "kind": kind.KIND,
        "layers": len(ours),
        "given_layers": match.mean(len(each.of(kind)) for each in given),
        "flops_share": target.totals["flops"] / whole_flops if whole_flops else 0.0,
        "distances": [
            {"feature": feature, "wasserstein": far, "kolmogorov_smirnov": apart} for feature, far, apart in distances
        ],
        "totals": totals,
    }


def _mostly_convolutions(given: Sequence[Layers]) -> bool:
    flops = {kind: sum(match.total(each.of(kind), "flops") for each in given) for kind in KINDS}
    return flops[Convolution] > sum(flops.values()) / 2


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
