"""Characterised suites side by side: how their time, their work and their sizes differ."""

import statistics
from collections.abc import Iterator, Sequence

from servemark.characterise.analysis import INTENSITY, LATENCY, PARAMETERS, WORK, first_engine, sizes
from servemark.characterise.tables import every
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.characterisation import Characterisation
from servemark.views.blocks import Article, Block, Figure, Lines, Section, Table
from servemark.views.drawing.axis import logarithmic
from servemark.views.drawing.plot import Plot
from servemark.views.kinds.profile import by_category
from servemark.views.shape import made
from servemark.views.wording import listed

_SIZES = (PARAMETERS, WORK, INTENSITY, LATENCY)


def article(saved: Saved) -> Article:
    """A bar of each suite's time by category, and each workload by its work and its parameters."""
    documents = [part.of(Characterisation) for part in saved.parts]
    shares = {document["suite"]: _mean_shares(document) for document in documents}
    title = f"Time by category on {documents[0]['engines'][0]}, mean over a suite's workloads"
    return Article(
        about=f"{listed([*shares])}  |  suites side by side",
        answer="; ".join(f"{suite}: {_largest(found)}" for suite, found in shares.items()),
        sections=[
            Section("Time by category", lambda: [by_category(title, "suite", shares, "{:.1%}".format, tabled=True)]),
            Section("Work and parameters", lambda: _dots(documents)),
            Section("Sizes", [_sizes(documents), Lines([*_notes(documents)])], titled=True),
        ],
        made=made(documents[0]),
    )


def _mean_shares(document: Characterisation) -> dict[str, float]:
    """Return each category's share of an inference on the first engine, the mean over the workloads."""
    data = every(document)["figure_5"]
    rows = [row[2:] for row in data.rows if row[1] == document["engines"][0]]
    columns = zip(data.head[2:], zip(*rows, strict=True), strict=True) if rows else ()
    return {name: statistics.fmean(float(value or 0.0) for value in column) for name, column in columns}


def _largest(shares: dict[str, float]) -> str:
    if not shares:
        return "no workload was profiled"
    name = max(shares, key=lambda each: shares[each])
    return f"{shares[name]:.0%} in {name}"


def _dots(documents: Sequence[Characterisation]) -> list[Block]:
    """Draw each workload in the colour of its suite."""
    known = [
        (document["suite"], row["workload"], work, parameters)
        for document in documents
        for row in document["rows"]
        if first_engine(row) and (work := sizes(row)[WORK]) and (parameters := sizes(row)[PARAMETERS])
    ]
    if not known:
        return []
    across = logarithmic(f"{WORK} of a sample", [x for *_, x, _ in known])
    plot = Plot("Parameters by work", across, logarithmic(PARAMETERS, [y for *_, y in known]))
    for colour, suite in enumerate(dict.fromkeys(suite for suite, *_ in known)):
        own = [
            (x, y, f"{name}: {figure(x)} {WORK}, {figure(y)} {PARAMETERS}") for of, name, x, y in known if of == suite
        ]
        plot.dots(own, suite, colour)
    rows = [[suite, name, figure(x), figure(y)] for suite, name, x, y in known]
    return [Figure.of(plot, "Parameters by work", Table(["suite", "workload", WORK, PARAMETERS], rows))]


def _sizes(documents: Sequence[Characterisation]) -> Table:
    """Medians over the workloads of a suite."""
    rows = []
    for document in documents:
        ran = [sizes(row) for row in document["rows"] if first_engine(row)]
        known = [[value for found in ran if (value := found[key]) is not None] for key in _SIZES]
        rows.append(
            [document["suite"], str(len(ran)), *(figure(statistics.median(each)) if each else "-" for each in known)]
        )
    return Table(["suite", "workloads", *(f"median {key}" for key in _SIZES)], rows)


def _notes(documents: Sequence[Characterisation]) -> Iterator[str]:
    yield "Shares, operations and bytes are of one sample on the first engine, as its profiler tells them."
    engines = {document["engines"][0] for document in documents}
    if len(engines) > 1:
        yield f"The suites were profiled on different engines: {listed(sorted(engines))}."
    hosts = {str(document["environment"]["cpu"]) for document in documents}
    if len(hosts) > 1:
        yield f"They were measured on different machines, so compare no times: {listed(sorted(hosts))}."
