"""A synthetic network: how well it matches what it was made of."""

from typing import Any

from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.suite import Candidate, CategoryShare, Synthesis, Total
from servemark.views.blocks import Article, Check, Figure, Lines, Section, Table
from servemark.views.charts import Bar
from servemark.views.shape import shaped
from servemark.views.wording import listed

CLOSE, CLOSE_POINTS = 0.05, 5.0
"""Totals within this share, and shares of time within this number of points, are close."""


def article(saved: Saved) -> Article:
    """The match in one sentence, then distances beside AI Matrix's own networks, totals and times."""
    document = saved.of(Synthesis)
    ours, *others = document["candidates"]
    layers = listed([f"{each['layers']} of {each['kind']}" for each in ours["kinds"]])
    return shaped(
        document,
        about=f"{document['name']}, a network for {listed(document['given'])} with layers: {layers}  |  "
        f"synthesis, seed {document['seed']}",
        answer=_answer(document),
        sections=[
            Section("Distributions of the layers", [_distances(document), Lines(_words(document))], titled=True),
            Section("Mean distance", lambda: [_mean_distances(document)]),
            Section("Totals", [_totals(each) for each in (ours, *others)], titled=True),
            Section("Time", [_times(document)], titled=True),
            Section("Time by category", [_shares(document)], titled=True),
            Section("Workloads held out", [_held_out(document)], titled=True),
        ],
    )


def _mean_distance(found: Candidate) -> float:
    """Average the features of each kind, then the kinds by their share of the operations."""
    held = [kind for kind in found["kinds"] if kind["distances"]]
    means = [sum(each["wasserstein"] for each in kind["distances"]) / len(kind["distances"]) for kind in held]
    shares = [kind["flops_share"] for kind in held]
    if not sum(shares):
        shares = [1.0] * len(held)
    return sum(mean * share for mean, share in zip(means, shares, strict=True)) / max(sum(shares), 1e-12)


def _answer(document: Synthesis) -> str:
    ours, *others = document["candidates"]
    beside = listed([f"{figure(_mean_distance(each))} for {each['name']}" for each in others])
    off = [f"{name} {each['ours'] / each['given'] - 1:+.1%}" for name, each in _judged(ours) if _off(each) > CLOSE]
    close = f"operations, parameters and bytes are within {CLOSE:.0%}"
    totals = f"off by more than {CLOSE:.0%}: {listed(off)}" if off else close
    far = [f"{_place(each)} {_points(each):+.0f}" for each in document["shares"] if abs(_points(each)) > CLOSE_POINTS]
    shares = f"; points of time off by more than {CLOSE_POINTS:.0f}: {listed(far)}" if far else ""
    return (
        f"{document['name']}: mean distance {figure(_mean_distance(ours))} standard deviations"
        f"{f', {beside}' if beside else ''}; {totals}{shares}"
    )


def _place(share: CategoryShare) -> str:
    return f"{share['category']} on {share['engine']}"


def _points(share: CategoryShare) -> float:
    return 100 * (share["ours"] - share["given"])


def _judged(found: Candidate) -> list[tuple[str, Total]]:
    """Totals of each kind by name."""
    return [(f"{each['name']} of {kind['kind']}", each) for kind in found["kinds"] for each in kind["totals"]]


def _off(total: Total) -> float:
    return abs(total["ours"] / total["given"] - 1)


def _mean_distances(document: Synthesis) -> Figure:
    drawn = [Bar(each["name"], _mean_distance(each), colour=n) for n, each in enumerate(document["candidates"])]
    title, unit = "Mean Wasserstein distance of the features", "standard deviations of the given layers"
    return Figure.of_bars(title, unit, drawn, ["network", "distance"])


def _distances(document: Synthesis) -> Table:
    names = [each["name"] for each in document["candidates"]]
    head = ["layers", "feature", *(f"{name} W" for name in names), *(f"{name} KS" for name in names)]
    rows = []
    for kinds in zip(*(each["kinds"] for each in document["candidates"]), strict=True):
        for number, first in enumerate(kinds[0]["distances"]):
            each = [kind["distances"][number] if kind["distances"] else None for kind in kinds]
            found = [*(e and e["wasserstein"] for e in each), *(e and e["kolmogorov_smirnov"] for e in each)]
            rows.append([kinds[0]["kind"], first["feature"], *map(figure, found)])
    return Table(head, rows)


def _words(document: Synthesis) -> list[str]:
    left_out = {name: share for name, share in document["left_out"].items() if share >= 0.005}
    lost = listed([f"{share:.1%} of {name}" for name, share in left_out.items()])
    return [
        "W: Wasserstein distance in standard deviations of the given layers; KS: Kolmogorov-Smirnov distance. "
        "Sides of filters and strides are compared as they are, all others as logarithms. Each given workload has the "
        "same weight.",
        *([f"Operations in no such layer: {lost}."] if lost else []),
        f"Workload file: {document['file']}",
    ]


def _totals(found: Candidate) -> Table:
    rows = []
    for kind in found["kinds"]:
        rows.append([kind["kind"], "layers", f"{kind['layers']}", figure(kind["given_layers"]), "-"])
        rows += [
            [kind["kind"], each["name"], figure(each["ours"]), figure(each["given"]), f"{_off(each):.1%}"]
            for each in kind["totals"]
        ]
    return Table(["layers", "total", found["name"], "mean of the given", "off"], rows)


def _times(document: Synthesis) -> Table:
    rows = []
    for each in document["contexts"]:
        ours, theirs = each["measured_ms"], each["predicted_ms"]
        ratio = figure(ours / theirs if ours and theirs else None)
        rows.append([each["engine"], str(each["batch_size"]), figure(theirs), figure(ours), ratio])
    return Table(["engine", "batch", "predicted ms", "measured ms", "ratio"], rows)


def _shares(document: Synthesis) -> Table:
    rows = [
        [each["engine"], each["category"], f"{each['ours']:.1%}", f"{each['given']:.1%}"] for each in document["shares"]
    ]
    marked = [n for n, each in enumerate(document["shares"]) if abs(_points(each)) > CLOSE_POINTS]
    return Table(["engine", "category", document["name"], "mean of the given"], rows, marked=marked)


def _held_out(document: Synthesis) -> Table:
    rows = [[each["workload"], figure(each["rank_correlation"])] for each in document["held_out"]]
    return Table(["workload", "Kendall's tau over engines and batches"], rows)


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each feature of each kind of layer of each network."""
    return [
        {"network": candidate["name"], "layers": kind["kind"], **each}
        for candidate in saved.of(Synthesis)["candidates"]
        for kind in candidate["kinds"]
        for each in kind["distances"]
    ]


def checks(saved: Saved) -> list[Check]:
    """Each total that was searched for is close, and each share of the time that was measured."""
    document = saved.of(Synthesis)
    ours = document["candidates"][0]
    totals = [
        Check(f"{name} within {CLOSE:.0%}", _off(each) <= CLOSE, note=f"{_off(each):.1%} off", subject=ours["name"])
        for name, each in _judged(ours)
    ]
    shares = [
        Check(
            f"time of {_place(each)} within {CLOSE_POINTS:.0f} points",
            abs(_points(each)) <= CLOSE_POINTS,
            note=f"{_points(each):+.1f} points",
            subject=ours["name"],
        )
        for each in document["shares"]
    ]
    return [*totals, *shares]
