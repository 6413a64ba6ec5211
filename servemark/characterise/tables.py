"""The data of each figure and table of a characterisation, as plain rows: CSV files are these, and a page shows them.

The names are those of AIBench's figures and tables, which each of them is after.
"""

import csv
import io
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from servemark.characterise.analysis import failure_of, first_engine, sizes, work_of
from servemark.profiling.measure import TOP_DOWN
from servemark.results.schema.header import reason_of
from servemark.results.schema.suite import Characterisation, CharacterisedWorkload, OnEngine
from servemark.stats.ratios import variation
from servemark.workload.suites import aibench

Value = str | float | int | None
HOTSPOT_SHARES = ((0.10, "above 10 %"), (0.05, "5 to 10 %"), (0.01, "1 to 5 %"))
SUITES = ("AIBench", "AI Matrix", "MLPerf")
"""Words that workloads' suites begin with; hotspots are counted of those of each suite."""
_MOST_HOTSPOTS = 3
_TOP_DOWN = [name.removeprefix("topdown-") for name in TOP_DOWN]


@dataclass(frozen=True)
class Data:
    """Rows of a figure under their columns, units in the names."""

    head: Sequence[str]
    rows: Sequence[Sequence[Value]]

    def to_csv(self) -> str:
        """Return it as a file; what is not known is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.head, *self.rows])
        return text.getvalue()


def every(document: Characterisation) -> dict[str, Data]:
    """Return the data of all figures and tables by name."""
    return {name: make(document) for name, make in _MAKERS.items()}


def _ran(document: Characterisation) -> Iterator[tuple[CharacterisedWorkload, OnEngine]]:
    for row in document["rows"]:
        if on := first_engine(row):
            yield row, on


def _complexity(document: Characterisation) -> Data:
    names = [*sizes(document["rows"][0])] if document["rows"] else []
    rows = [[row["workload"], aibench.number_of(row["suites"]), *sizes(row).values()] for row, _ in _ran(document)]
    return Data(["workload", "AIBench", *names], rows)


def _latencies(document: Characterisation) -> Data:
    rows: list[list[Value]] = []
    for row in document["rows"]:
        for on in row["engines"]:
            for batch in on["batches"]:
                reason = None if batch["ms"] is not None else reason_of(batch, "ms")
                per = batch["ms"] / batch["batch_size"] if batch["ms"] else None
                rows.append([row["workload"], on["engine"], batch["batch_size"], batch["ms"], per, reason])
            if reason := failure_of(on):
                rows.append([row["workload"], on["engine"], None, None, None, reason])
    return Data(["workload", "engine", "batch", "ms", "ms a sample", "reason"], rows)


def _metrics(document: Characterisation) -> Data:
    head = ["workload", "of peak FLOP/s", "of memory bandwidth", "in compute-bound operators", "in operators"]
    ceiling = document["ceiling"]
    rows: list[list[Value]] = []
    for row, on in _ran(document):
        per_sample = [batch["ms"] / batch["batch_size"] for batch in on["batches"] if batch["ms"]]
        profile, (flops, moved) = on["profile"], work_of(on)
        seconds = (profile["latency_ms"] or 0.0) / 1e3
        peaks = [flops / ceiling["tflops"] / 1e12, moved / ceiling["bandwidths"][-1]["gbps"] / 1e9] if ceiling else []
        bound = sum(each["share"] for each in profile["operators"] if each["bound"] == "compute")
        shares = [*(each / seconds for each in peaks), bound] if ceiling and seconds else [None, None, None]
        gain = per_sample[0] / min(per_sample) if per_sample else None
        ipc = profile["counters"]["ipc"] if profile["counters"] else None
        rows.append([row["workload"], *shares, profile["told_share"], gain, ipc])
    return Data([*head, "gain by batching", "IPC"], rows)


def _places(document: Characterisation) -> Data:
    head = ["workload", "cluster", "stands in for it", "PCA 1", "PCA 2", "t-SNE 1", "t-SNE 2"]
    found = document["analysis"]
    placed = found["placed"] if found else []
    return Data(head, [[p["workload"], p["cluster"], p["stands_in"], *p["pca"], *p["tsne"]] for p in placed])


def _silhouettes(document: Characterisation) -> Data:
    found = document["analysis"]
    return Data(["clusters", "silhouette"], [*found["silhouettes"].items()] if found else [])


def _seeds(document: Characterisation) -> Data:
    found = document["analysis"]
    return Data(["seed", "adjusted Rand index"], [*enumerate(found["tsne_agreement"])] if found else [])


def _categories(document: Characterisation) -> Data:
    found = [(row, on) for row in document["rows"] for on in row["engines"] if on["profile"]["categories"]]
    names = [each["name"] for each in found[0][1]["profile"]["categories"]] if found else []
    rows = [
        [row["workload"], on["engine"], *shares, max(1 - sum(shares), 0.0)]
        for row, on in found
        if (shares := [each["share"] for each in on["profile"]["categories"]])
    ]
    return Data(["workload", "engine", *names, "between operators"], rows)


def _hotspot_counts(document: Characterisation) -> Data:
    ran = [*_ran(document)]
    analysis = document["analysis"]
    chosen = analysis["chosen"] if analysis else []
    groups = {
        "all of them": ran,
        **{f"{words}'s among them": [each for each in ran if _within(each[0], words)] for words in SUITES},
        "AIBench's subset": [each for each in ran if each[0]["workload"] in aibench.SUBSET],
        "the chosen few": [each for each in ran if each[0]["workload"] in chosen],
    }
    told = {name: found for name, found in groups.items() if found and (found is ran or len(found) < len(ran))}
    rows: list[list[Value]] = [[name, len(found), *_counted(found)] for name, found in told.items()]
    return Data(["group", "workloads", *(words for _, words in HOTSPOT_SHARES), "different operators"], rows)


def _within(row: CharacterisedWorkload, words: str) -> bool:
    return any(suite.startswith(words) and not suite.endswith("variant") for suite in row["suites"])


def _counted(found: Sequence[tuple[CharacterisedWorkload, OnEngine]]) -> list[int]:
    operators = [operator for _, on in found for operator in on["profile"]["operators"]]
    above = [sum(each["share"] > least for each in operators) for least, _ in HOTSPOT_SHARES]
    different = {each["operator"] for each in operators if each["share"] > HOTSPOT_SHARES[-1][0]}
    return [above[0], above[1] - above[0], above[2] - above[1], len(different)]


def _hotspots(document: Characterisation) -> Data:
    found: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for row, on in _ran(document):
        for each in (each for each in on["profile"]["operators"] if each["share"] > HOTSPOT_SHARES[-1][0]):
            found.setdefault((each["category"], each["operator"]), []).append((each["share"], row["workload"]))
    rows: list[list[Value]] = []
    for category in dict.fromkeys(category for category, _ in found):
        of_it = [(max(own), len(own), name) for (of, name), own in found.items() if of == category]
        longest = sorted(of_it, reverse=True)
        rows += [[category, name, count, share, where] for (share, where), count, name in longest[:_MOST_HOTSPOTS]]
    return Data(["category", "operator", "workloads", "largest share", "in"], sorted(rows, key=lambda row: str(row[0])))


def _stalls(document: Characterisation) -> Data:
    rows: list[list[Value]] = []
    for row, on in _ran(document):
        counters = on["profile"]["counters"]
        found = counters["top_down"] if counters else None
        parts = [found.get(name) for name in _TOP_DOWN] if found else [None] * len(_TOP_DOWN)
        rows.append([row["workload"], *parts, None if found or not counters else reason_of(counters, "top_down")])
    return Data(["workload", *_TOP_DOWN, "reason"], rows)


def _variations(document: Characterisation) -> Data:
    keys = {"p50_ms": "p50", "p99_ms": "p99", "inferences_per_s": "throughput", "joules_per_inference": "energy"}
    rows: list[list[Value]] = []
    for row in document["rows"]:
        if not row["starts"]:
            continue
        good = [each for each in row["starts"] if not each["failure"]]
        found = [variation([each[key] for each in good]) for key in keys]  # type: ignore[literal-required]
        component = aibench.COMPONENTS.get(aibench.number_of(row["suites"]) or "")
        theirs = (component.variation, component.repeats) if component else (None, None)
        rows.append([row["workload"], len(good), *found, *theirs])
    head = ["workload", "starts", *(f"CoV of {name}" for name in keys.values())]
    return Data([*head, "AIBench's CoV of epochs", "its repeats"], rows)


def _costs(document: Characterisation) -> Data:
    rows: list[list[Value]] = []
    for row in document["rows"]:
        engines, starts = (sum(each["spent_s"] for each in own) for own in (row["engines"], row["starts"]))
        one = statistics.fmean(each["spent_s"] for each in row["starts"]) if row["starts"] else None
        component = aibench.COMPONENTS.get(aibench.number_of(row["suites"]) or "")
        hours = component.whole_h if component else None
        rows.append([row["workload"], row["export_s"], engines, one, starts, engines + starts, hours])
    head = ["workload", "export (s)", "engines (s)", "one start (s)", "all starts (s)", "whole (s)"]
    return Data([*head, "AIBench's training (h)"], rows)


def _claims(document: Characterisation) -> Data:
    head = ["subset", "workloads", "judged", "factor", "low", "high", "by its mean", "worse random subsets"]
    found = document["prediction"]
    rows: list[list[Value]] = []
    for each in found["claims"] if found else []:
        low, high = each["interval"] or (None, None)
        named = [each["subset"], " ".join(each["members"])]
        rows.append([*named, each["judged"], each["factor"], low, high, each["mean_factor"], each["better_than"]])
    return Data(head, rows)


_MAKERS: dict[str, Callable[[Characterisation], Data]] = {
    "subset": _claims,
    "latencies": _latencies,
    "figure_2": _complexity,
    "figure_3": _metrics,
    "figure_4": _places,
    "figure_4_silhouettes": _silhouettes,
    "figure_4_seeds": _seeds,
    "figure_5": _categories,
    "figure_6": _hotspot_counts,
    "figure_7": _stalls,
    "table_5": _variations,
    "table_6": _costs,
    "table_7": _hotspots,
}
