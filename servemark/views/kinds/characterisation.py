"""A suite characterised: the few that stand for all, with its test, and AIBench's figures; or suites side by side."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from servemark.characterise.analysis import INTENSITY, LATENCY, PARAMETERS, WORK, failure_of, first_engine, sizes
from servemark.characterise.tables import Data, Value, every
from servemark.quantities import duration_text, figure, with_interval
from servemark.results.saved import Saved
from servemark.results.schema.header import reason_of
from servemark.results.schema.suite import Characterisation
from servemark.views.blocks import Article, Block, Check, Figure, Lines, Section, Table
from servemark.views.charts import Bar, radars
from servemark.views.drawing import Key, Plot, colour_of, linear, logarithmic
from servemark.views.kinds.profile import by_category
from servemark.views.shape import made, shaped
from servemark.views.wording import listed, percent
from servemark.workload.suites import aibench

_PERCENT = ("share", "of peak", "of memory", "in compute", "in operators", "CoV", "worse random", "in chosen")
_OTHER_WORK = 0.05
Named = Mapping[str, Data]
_SIZES = (PARAMETERS, WORK, INTENSITY, LATENCY)


def article(saved: Saved) -> Article:
    """The few and how well they predict, then each figure beside what AIBench prints; or several suites."""
    if saved.parts:
        return _side_by_side([part.of(Characterisation) for part in saved.parts])
    document = saved.of(Characterisation)
    found = every(document)
    places = found["figure_4"]
    failed = [f"{each.subject}: {each.note}" for each in checks(saved) if not each.ok]
    first = document["engines"][0]
    return shaped(
        document,
        about=f"{document['suite']}: {len(document['rows'])} workloads on {listed(document['engines'])}, "
        f"batches {listed([str(each) for each in document['batches']])}, {document['device']}  |  characterisation",
        answer=_answer(document),
        explained=[*_claim_words(document)],
        sections=[
            Section("Which few stand for all", [_table(found["subset"]), Lines(_test_words(document))], titled=True),
            Section("The claim", lambda: _claims(document)),
            Section(
                "Who stands for whom", [_table(Data(places.head[:3], [row[:3] for row in places.rows]))], titled=True
            ),
            Section("Latency on each engine", lambda: [_latencies(found["latencies"])]),
            Section("Parameters, FLOPs and latency (Figure 2)", lambda: _complexity(document, found)),
            Section(f"Metrics on {first} (Figure 3)", lambda: _metrics(document, found)),
            Section(f"Clusters by features on {first} (Figure 4)", lambda: _clusters(document, found)),
            Section("Time by category (Figure 5)", lambda: _categories(document, found)),
            Section(f"Hotspots on {first} by share (Figure 6)", _beside("figure_6", found), titled=True),
            Section(f"Hotspots on {first} (Table 7)", lambda: _beside("table_7", found)),
            Section("Stalls (Figure 7)", lambda: [_stalls(found["figure_7"])]),
            Section(
                f"Variation over server starts of {first} (Table 5)",
                _beside("table_5", found, _variation_words(document), aibench.TIMED_ON),
                titled=True,
            ),
            Section(
                "Cost of a whole run (Table 6)",
                _beside("table_6", found, _cost_words(document, found), aibench.TIMED_ON),
                titled=True,
            ),
            Section("What to know", [Lines([*_notes(document), *failed])], titled=True),
        ],
        failed=failed,
    )


def _answer(document: Characterisation) -> str:
    analysis, prediction = document["analysis"], document["prediction"]
    if analysis is None:
        return f"no few stand for all: {reason_of(document, 'analysis')}"
    few = f"{listed(analysis['chosen'])} stand for {len(analysis['placed'])} workloads"
    if prediction is None:
        return f"{few}; untested: {reason_of(document, 'prediction')}"
    claim = prediction["claims"][0]
    return f"{few}; they predict the ratios of the others within a factor of {_factor(claim)}"


def _factor(claim: Mapping[str, Any]) -> str:
    return with_interval(f"{claim['factor']:.2f}", claim["interval"], 2)


def _claim_words(document: Characterisation) -> Iterator[str]:
    prediction = document["prediction"]
    if prediction is not None:
        for claim in prediction["claims"][1:]:
            yield f"{claim['subset'][0].upper()}{claim['subset'][1:]}: a factor of {_factor(claim)}."
        yield f"If nothing is known and each ratio is taken as 1: {prediction['unchanged_factor']:.2f}."


def _test_words(document: Characterisation) -> list[str]:
    prediction = document["prediction"]
    if prediction is None:
        return []
    return [
        "A ratio is the time of a sample in a context to that on the first engine at batch 1. Contexts: "
        f"{'; '.join(prediction['contexts'])}.",
        "The prediction for a workload is the ratio of the member of the subset that is nearest to it by features. "
        "These are of the first engine at batch 1 alone: no predicted ratio is among them.",
        "The factor is the geometric mean of the errors of the workloads outside. Its interval is a bootstrap over "
        f"them; of random subsets it is the range of 95 % of {prediction['random_subsets']:,}.",
    ]


def _latencies(data: Data) -> Table:
    """Times of a sample, a column for each engine and batch size."""
    times = {(f"{row[0]}", f"{row[1]}, batch {row[2]}"): row[4] for row in data.rows if row[2]}
    names, contexts = (list(dict.fromkeys(pair[place] for pair in times)) for place in (0, 1))
    cells = [[name, *(times.get((name, context)) for context in contexts)] for name in names]
    return _table(Data(["ms a sample", *contexts], cells))


def _claims(document: Characterisation) -> list[Block]:
    prediction = document["prediction"]
    if prediction is None:
        return []
    drawn = [
        Bar(claim["subset"], claim["factor"], claim["interval"], number, digits=2)
        for number, claim in enumerate(prediction["claims"])
    ]
    title, unit = "Error of the prediction: 1 is perfect", "factor between predicted and measured ratio"
    head = ["subset", "factor", "95 % interval"]
    return [Figure.of_bars(title, unit, drawn, head, points=True, around=[1.0])]


def _complexity(document: Characterisation, found: Named) -> list[Block]:
    data = found["figure_2"]
    column = {name: number for number, name in enumerate(data.head)}
    blocks: list[Block] = []
    for key, unit in ((PARAMETERS, "parameters, millions"), (LATENCY, "latency at batch 1, ms")):
        points = [(row[column[WORK]], row[column[key]], str(row[0])) for row in data.rows]
        known = [(float(x), float(y), name) for x, y, name in points if x and y]
        if known:
            axes = logarithmic(WORK, [x for x, *_ in known]), logarithmic(unit, [y for _, y, _ in known])
            plot = Plot(f"{unit} by {WORK}", *axes)
            _dots(plot, known, document, data)
            blocks.append(Figure.of(plot, f"{unit[0].upper()}{unit[1:]} by {WORK}", _table(data)))
    return [*blocks, _numbers(data), Lines(_printed("figure_2"))]


def _dots(plot: Plot, points: list[tuple[float, float, str]], document: Characterisation, data: Data) -> None:
    """Draw workloads in the colour of their cluster, with their numbers in the table; the chosen are filled."""
    analysis = document["analysis"]
    placed = {each["workload"]: each["cluster"] for each in analysis["placed"]} if analysis else {}
    chosen = analysis["chosen"] if analysis else []
    numbers = {str(row[0]): number for number, row in enumerate(data.rows, start=1)}
    for x, y, name in points:
        colour = placed.get(name, 8) - 1
        plot.dots([(x, y, name)], "", colour, "dot" if name in chosen else "hollow")
        plot.words(x, y, f"{numbers.get(name, '')}")
    plot.keys += [Key(f"cluster {each}", colour_of(each - 1), "dot") for each in sorted({*placed.values()})]
    if chosen:
        plot.keys.append(Key("filled: chosen", colour_of(7), "dot"))


def _numbers(data: Data) -> Table:
    """Numbers of the dots."""
    table = _table(data)
    return Table(["", *table.head], [[f"{number}", *row] for number, row in enumerate(table.rows, start=1)])


def _metrics(document: Characterisation, found: Named) -> list[Block]:
    data = found["figure_3"]
    axes = data.head[1:6]
    columns = [[row[1 + place] for row in data.rows] for place in range(len(axes))]
    most = [max((float(v) for v in column if v is not None), default=0.0) for column in columns]
    shown = [number for number, each in enumerate(most) if each > 0]
    analysis = document["analysis"]
    placed = {each["workload"]: each["cluster"] - 1 for each in analysis["placed"]} if analysis else {}
    rows = [
        (
            str(row[0]),
            [None if (v := row[1 + place]) is None else float(v) / most[place] for place in shown],
            placed.get(str(row[0]), 7),
        )
        for row in data.rows
    ]
    names = [axes[place] for place in shown]
    blocks: list[Block] = []
    if len(names) > 2 and rows:
        keys = ", ".join(f"{number} {name}" for number, name in enumerate(names, start=1))
        svg = radars("Metrics of each workload", names, rows)
        note = f"From the top, clockwise: {keys}. Each axis ends at the suite's largest value. Colours are clusters."
        blocks.append(Figure("Metrics of each workload", svg, _table(data), note=note, wide=True))
    return [*blocks, _table(data), Lines(_printed("figure_3"))]


def _clusters(document: Characterisation, found: Named) -> list[Block]:
    analysis = document["analysis"]
    if analysis is None:
        return []
    data = found["figure_4"]
    blocks: list[Block] = []
    for first, title in ((5, "t-SNE, first seed"), (3, "Principal components")):
        known = [(float(row[first] or 0), float(row[first + 1] or 0), str(row[0])) for row in data.rows]
        across = linear(data.head[first], [x for x, *_ in known], from_zero=False)
        plot = Plot(title, across, linear(data.head[first + 1], [y for _, y, _ in known], from_zero=False))
        _dots(plot, known, document, data)
        blocks.append(Figure.of(plot, title, _table(data)))
    silhouettes = analysis["silhouettes"]
    best = max(silhouettes, key=lambda count: silhouettes[count], default=None)
    low, high = (f"{end(analysis['tsne_agreement']):.2f}" for end in (min, max))
    lines = [
        f"Features: {', '.join(analysis['features'])}.",
        *(f"Left out: {each}." for each in analysis["left_out"]),
        f"The first two principal components have {analysis['pca_share']:.0%} of the variance.",
        "Clusters in t-SNE's plane agree with those in the features by an adjusted Rand index of "
        f"{low if low == high else f'{low} to {high}'} over {analysis['seeds']} seeds: 1 is equal, 0 is chance.",
        *([f"The silhouette is highest at {best} clusters: {silhouettes[best]:.2f}."] if best else []),
    ]
    return [*blocks, _numbers(data), _table(found["figure_4_silhouettes"]), Lines([*lines, *_printed("figure_4")])]


def _categories(document: Characterisation, found: Named) -> list[Block]:
    data, blocks = found["figure_5"], list[Block]()
    for engine in document["engines"]:
        shares = {
            str(row[0]): {name: float(share or 0.0) for name, share in zip(data.head[2:], row[2:], strict=True)}
            for row in data.rows
            if row[1] == engine
        }
        if shares:
            blocks.append(by_category(f"Time by category on {engine}", "workload", shares, percent))
    return [*blocks, Lines(_printed("figure_5"))]


def _stalls(data: Data) -> Block:
    if any(value is not None for row in data.rows for value in row[1:-1]):
        return _table(data)
    reasons = dict.fromkeys(str(row[-1]) for row in data.rows if row[-1])
    return Lines([f"Not known: {each}." for each in reasons] + _printed("figure_7"))


def _beside(
    name: str, found: Named, words: Iterable[str] = (), hardware: str = aibench.CHARACTERISED_ON
) -> list[Block]:
    """A table as it is, and what AIBench prints in its place."""
    return [_table(found[name]), Lines([*words, *_printed(name, hardware)])]


def _printed(name: str, hardware: str = aibench.CHARACTERISED_ON) -> list[str]:
    return [f"AIBench prints ({hardware}): {aibench.PRINTED[name]}."]


def _variation_words(document: Characterisation) -> Iterator[str]:
    if not document["starts"]:
        yield "No server starts were asked for: --starts 4."
        return
    yield "CoV is the standard deviation over the mean. A dash: fewer than 4 starts, or a figure that is not known."
    for key, words in (("p99_ms", "p99"), ("joules_per_inference", "energy")):
        found = (reason_of(start, key) for row in document["rows"] for start in row["starts"] if not start["failure"])
        reasons = dict.fromkeys(each for each in found if each)
        if reasons:
            yield f"{words} is not known of some runs: {'; '.join(reasons)}."


def _cost_words(document: Characterisation, found: Named) -> Iterator[str]:
    costs = {str(row[0]): float(row[5] or 0.0) for row in found["table_6"].rows}
    exports = sum(row["export_s"] or 0.0 for row in document["rows"])
    whole = sum(costs.values())
    yield f"All workloads took {duration_text(whole)}; their exports for the first engine {duration_text(exports)}."
    for claim in (document["prediction"] or {"claims": []})["claims"]:
        if claim["members"] and whole:
            part = sum(costs.get(name, 0.0) for name in claim["members"])
            yield f"{claim['subset']}: {duration_text(part)}, which saves {1 - part / whole:.0%}."


def _notes(document: Characterisation) -> Iterator[str]:
    shares = [each["other_cpu_share"] for row in document["rows"] for each in row["engines"]]
    known = [share for share in shares if share is not None]
    if known and max(known) > _OTHER_WORK:
        yield (
            f"The machine was shared: other work took {sum(known) / len(known):.0%} of the cores on average, "
            f"{max(known):.0%} at most. Times are upper bounds, and ratios less exact."
        )
    if (reason := reason_of(document, "ceiling")) is not None:
        yield f"No shares of ceilings: {reason}."
    yield (
        "AIBench's figures are of training on its GPU. Ours are of inference on the machine that this page names, so "
        "task, hardware and software differ; which of them moves a figure by how much is not known."
    )
    yield "Each figure's data lie beside this page as CSV."


def _table(data: Data) -> Table:
    rows = [[_said(name, value) for name, value in zip(data.head, row, strict=True)] for row in data.rows]
    return Table.known(data.head, rows, data.head[:1])


def _said(name: str, value: Value) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, str):
        return value
    return percent(value) if any(words in name for words in _PERCENT) else figure(value)


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each workload, engine and batch size."""
    document = saved.of(Characterisation)
    data = every(document)["latencies"]
    return [{"suite": document["suite"], **dict(zip(data.head, row, strict=True))} for row in data.rows]


def checks(saved: Saved) -> list[Check]:
    """Each workload ran on each engine, and on each server that was started."""
    document = saved.of(Characterisation)
    return [
        Check("ran", not reason, note=reason or "", subject=f"{document['suite']}.{row['workload']}.{where}")
        for row in document["rows"]
        for where, reason in (
            *((each["engine"], failure_of(each)) for each in row["engines"]),
            *((f"start {number}", each["failure"]) for number, each in enumerate(row["starts"], start=1)),
        )
    ]


def _side_by_side(documents: Sequence[Characterisation]) -> Article:
    """A bar of each suite's time by category, and each workload by its work and its parameters."""
    shares = {document["suite"]: _mean_shares(document) for document in documents}
    title = f"Time by category on {documents[0]['engines'][0]}, mean over a suite's workloads"
    return Article(
        about=f"{listed([*shares])}  |  suites side by side",
        answer="; ".join(f"{suite}: {_largest(found)}" for suite, found in shares.items()),
        sections=[
            Section("Time by category", lambda: [by_category(title, "suite", shares, "{:.1%}".format, tabled=True)]),
            Section("Work and parameters", lambda: _all_dots(documents)),
            Section("Sizes", [_median_sizes(documents), Lines([*_notes_beside(documents)])], titled=True),
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


def _all_dots(documents: Sequence[Characterisation]) -> list[Block]:
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


def _median_sizes(documents: Sequence[Characterisation]) -> Table:
    """Medians over the workloads of a suite."""
    rows = []
    for document in documents:
        ran = [sizes(row) for row in document["rows"] if first_engine(row)]
        known = [[value for found in ran if (value := found[key]) is not None] for key in _SIZES]
        rows.append(
            [document["suite"], str(len(ran)), *(figure(statistics.median(each)) if each else "-" for each in known)]
        )
    return Table(["suite", "workloads", *(f"median {key}" for key in _SIZES)], rows)


def _notes_beside(documents: Sequence[Characterisation]) -> Iterator[str]:
    yield "Shares, operations and bytes are of one sample on the first engine, as its profiler tells them."
    engines = {document["engines"][0] for document in documents}
    if len(engines) > 1:
        yield f"The suites were profiled on different engines: {listed(sorted(engines))}."
    hosts = {str(document["environment"]["cpu"]) for document in documents}
    if len(hosts) > 1:
        yield f"They were measured on different machines, so compare no times: {listed(sorted(hosts))}."
