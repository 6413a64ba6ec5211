"""A synthetic network: how well it matches what it was made of."""

from typing import Any

from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.synthesis import Candidate, Synthesis
from servemark.views.blocks import Article, Check, Figure, Lines, Section, Table
from servemark.views.drawing.axis import linear
from servemark.views.drawing.plot import Bar, ends
from servemark.views.plots.circumstances import environment, made
from servemark.views.wording import listed

CLOSE, CLOSE_SHARE = 0.05, 0.05
"""Totals within this share, and shares of time within this number of points, are close."""


def article(saved: Saved) -> Article:
    """The match in one sentence, then distances beside AI Matrix's own networks, totals and times."""
    document = saved.of(Synthesis)
    ours, *others = document["candidates"]
    return Article(
        about=f"{document['name']}, a network of {ours['layers']} convolutions for {listed(document['given'])}  |  "
        f"synthesis, seed {document['seed']}",
        answer=_answer(document),
        explained=[],
        sections=[
            Section("Distributions of the layers", [_distances(document), Lines(_words(document))], titled=True),
            Section("Mean distance", lambda: [_mean_distances(document)]),
            Section("Totals", [_totals(each) for each in (ours, *others)], titled=True),
            Section("Time", [_times(document)] if document["contexts"] else [], titled=True),
            Section("Time by category", [_shares(document)] if document["shares"] else [], titled=True),
            Section("Workloads held out", [_held_out(document)] if document["held_out"] else [], titled=True),
            Section("Environment", lambda: environment(document)),
        ],
        badges=[],
        made=made(document),
    )


def _mean_distance(found: Candidate) -> float:
    distances = [each["wasserstein"] for each in found["distances"]]
    return sum(distances) / len(distances)


def _answer(document: Synthesis) -> str:
    ours, *others = document["candidates"]
    beside = listed([f"{figure(_mean_distance(each))} for {each['name']}" for each in others])
    off = [f"{each['name']} {each['ours'] / each['given'] - 1:+.1%}" for each in ours["totals"] if _off(each) > CLOSE]
    totals = f"off by more than {CLOSE:.0%}: {listed(off)}" if off else f"all totals are within {CLOSE:.0%}"
    return (
        f"{document['name']}: mean distance {figure(_mean_distance(ours))} standard deviations"
        f"{f', {beside}' if beside else ''}; {totals}"
    )


def _off(total: Any) -> float:
    return abs(total["ours"] / total["given"] - 1) if total["given"] else float(total["ours"])


def _mean_distances(document: Synthesis) -> Figure:
    drawn = [Bar(each["name"], _mean_distance(each), colour=n) for n, each in enumerate(document["candidates"])]
    axis = linear("standard deviations of the given layers", ends(drawn))
    return Figure.of_bars("Mean Wasserstein distance of the features", axis, drawn, ["network", "distance"])


def _distances(document: Synthesis) -> Table:
    names = [each["name"] for each in document["candidates"]]
    head = ["feature", *(f"{name} W" for name in names), *(f"{name} KS" for name in names)]
    rows = []
    for number, first in enumerate(document["candidates"][0]["distances"]):
        each = [candidate["distances"][number] for candidate in document["candidates"]]
        found = [*(e["wasserstein"] for e in each), *(e["kolmogorov_smirnov"] for e in each)]
        rows.append([first["feature"], *map(figure, found)])
    return Table(head, rows)


def _words(document: Synthesis) -> list[str]:
    left_out = {name: share for name, share in document["left_out"].items() if share >= 0.005}
    lost = listed([f"{share:.1%} of {name}" for name, share in left_out.items()])
    return [
        "W: Wasserstein distance in standard deviations of the given layers; KS: Kolmogorov-Smirnov distance. "
        "Channels, sides, operations and bytes are compared as logarithms. Each given workload has the same weight.",
        *([f"Operations in layers that a chain does not have: {lost}."] if lost else []),
        f"Workload file: {document['file']}",
    ]


def _totals(found: Candidate) -> Table:
    rows = [
        [each["name"], figure(each["ours"]), figure(each["given"]), f"{_off(each):.1%}" if each["given"] else "-"]
        for each in found["totals"]
    ]
    return Table(["total", found["name"], "mean of the given", "off"], rows)


def _times(document: Synthesis) -> Table:
    rows = []
    for each in document["contexts"]:
        ours, theirs = each["measured_ms"], each["predicted_ms"]
        ratio = figure(ours / theirs) if ours and theirs else "-"
        rows.append([each["engine"], str(each["batch_size"]), figure(theirs), figure(ours), ratio])
    return Table(["engine", "batch", "predicted ms", "measured ms", "ratio"], rows)


def _shares(document: Synthesis) -> Table:
    rows = [
        [each["engine"], each["category"], f"{each['ours']:.1%}", f"{each['given']:.1%}"] for each in document["shares"]
    ]
    marked = [n for n, each in enumerate(document["shares"]) if abs(each["ours"] - each["given"]) > CLOSE_SHARE]
    return Table(["engine", "category", document["name"], "mean of the given"], rows, marked=marked)


def _held_out(document: Synthesis) -> Table:
    rows = [[each["workload"], figure(each["rank_correlation"])] for each in document["held_out"]]
    return Table(["workload", "Kendall's tau over engines and batches"], rows)


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each feature of each network."""
    return [
        {"network": candidate["name"], **each}
        for candidate in saved.of(Synthesis)["candidates"]
        for each in candidate["distances"]
    ]


def checks(saved: Saved) -> list[Check]:
    """Each total is close."""
    ours = saved.of(Synthesis)["candidates"][0]
    said = f"within {CLOSE:.0%}"
    return [
        Check(f"{each['name']} {said}", _off(each) <= CLOSE, note=f"{_off(each):.1%} off", subject=ours["name"])
        for each in ours["totals"]
    ]
