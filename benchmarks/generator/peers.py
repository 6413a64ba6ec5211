"""The main loads against every peer, with cores awake on both sides and on neither: the figures that are quoted."""

import statistics
from collections.abc import Sequence

from benchmarks.generator.comparisons import COMPARISONS, OURS, Comparison
from benchmarks.rig import peer_load
from benchmarks.rig.aims import Claim
from benchmarks.rig.load import Figures
from benchmarks.rig.peer_load import BOTH, NEITHER
from servemark.stats.ratios import ratio_of_pairs

MAIN = ("ceiling", "http", "latency", "grpc", "grpc-latency")
HEAD = """\
| load | peer | figure | servemark / peer, cores awake | cores idle | aim |
|---|---|---|---|---|---|"""
Found = dict[str, dict[str, list[Figures]]]
"""Figures of each side in rounds, by whose cores were awake."""


def peers(pairs: int, seconds: float) -> None:
    """Measure, print each round and then the table."""
    lines = [HEAD]
    for name in MAIN:
        comparison = COMPARISONS[name]
        with comparison.serve(comparison.load.model) as at:
            found = {cores: comparison.measure(at, pairs, seconds, cores) for cores in (BOTH, NEITHER)}
        lines += rows(comparison, found)
        print(flush=True)
    print("\n".join(lines))


def rows(comparison: Comparison, found: Found) -> list[str]:
    """Return a line for each claim and each further peer; for one that was not run the reason."""
    figure = comparison.claims[0].figure
    claims = [*comparison.claims, *(Claim(figure, peer=name) for name in comparison.further)]
    return [f"| {' | '.join((comparison.title, claim.peer, *_cells(comparison, claim, found)))} |" for claim in claims]


def _cells(comparison: Comparison, claim: Claim, found: Found) -> Sequence[str]:
    """Return the figure's name, ratio, interval and medians by whose cores were awake, and what came of the aim."""
    if why := peer_load.refusal(claim.peer, comparison.load):
        return claim.figure, f"not run: {why}", "", ""
    ratios, cells = [], []
    for cores in (BOTH, NEITHER):
        ours, theirs = ([getattr(each, claim.figure) for each in found[cores][name]] for name in (OURS, claim.peer))
        ratio = ratio_of_pairs(list(zip(ours, theirs, strict=False)))
        interval = "" if ratio.low is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
        medians = " against ".join(f"{statistics.median(each):.4g}" for each in (ours, theirs))
        cells.append(f"{ratio.value:.2f}{interval}; {medians}")
        ratios.append(ratio.value)
    verdicts = [claim.aim.verdict(ratio) for ratio in ratios]
    aim = verdicts[0] if verdicts[0] == verdicts[1] else f"awake: {verdicts[0]}; idle: {verdicts[1]}"
    return claim.figure, *cells, aim
