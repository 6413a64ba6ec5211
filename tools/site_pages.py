"""The pages that only the site has: `make docs` writes them from types, catalogs and the registry of workloads.

A reader of the repository has `servemark schema`, `servemark list figures` and the docstrings in servemark/models/.
`python -m tools.site_pages result` prints the page of the documents; `metrics` and `cards` are the others.
"""

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, is_typeddict

from servemark.figures.figure import Figure
from servemark.figures.registry import distributions, registry
from servemark.library.parquet import REQUESTS, SERIES, Column
from servemark.paths import CHECKOUT
from servemark.results.kinds import KINDS, fields_of, summary_of
from servemark.results.schema.header import Header
from servemark.telemetry.metrics.catalog import HIGHEST_S, LOWEST_DELAY_S, LOWEST_S, RUN_LABELS, by_name
from servemark.telemetry.metrics.exposition import bounds_s
from tools.model_cards import cards

FOLDER = CHECKOUT / "docs" / "reference" / "made"
_RESULT = """# The result

This page is made from the types in `servemark/results/schema/`. `servemark schema [KIND]` prints the same as a JSON
Schema.

A run writes a directory `results/<time>-<name>/` with `result.json` and `histograms.json`. The name is the model's on
the server, like `ranking_onnxruntime`. `--json` prints the former.

- `figures` has [each figure](#figures) by its tag, with value, unit and 95 % interval: `.figures["latency.p99"].value`.
- A figure that is not known has the value `null`, and a `reason`. A figure that such a run cannot have is absent.
- `details` has what is not a number, by the same subjects.
- Another key that is not known is `null`. Its reason stands beside it as `<key>_reason`, or as `reason` for a group.
- Units of other keys are in their names (`_ms`, `_s`, `_w`, `_gb`). Rates are per second, shares from 0 to 1.
- `request` is what was asked for, each value once. `resolved` and `scenario` are what came of it.
- A later version may add keys and figures. A changed meaning raises `schema_version`. A result of version 4 is read as
  one of version 5.

[Metrics](../../explanation/metrics.md) says how each figure is measured. [Verdict](../../explanation/verdict.md) says
how a run is judged.

## Files

| file | from | document |
|---|---|---|
| `result.json` | `servemark run`, a locustfile | [Result](#result) |
| `result.json` | `servemark mlperf` | [MlperfResult](#mlperfresult) |
| `result.json` | `servemark quality` | [QualityResult](#qualityresult) |
| `result.json` | `servemark calibrate` | [Calibration](#calibration) |
| `result.json` | `servemark profile` | [Profile](#profile) |
| `result.json` | `servemark characterise` | [Characterisation](#characterisation) |
| `result.json` | `servemark synthesise` | [Synthesis](#synthesis) |
| `result.json` | `servemark kernels` | [KernelsDocument](#kernelsdocument) |
| `comparison.json` | `servemark compare WORKLOAD` | [ComparisonDocument](#comparisondocument) |
| `tuning.json` | `servemark tune` | [TuningDocument](#tuningdocument) |
| `suite.json` | `servemark suite` | [SuiteDocument](#suitedocument) |
| `series.json` | a run, unless `--sampling-rate 0` | [MachineSeries](#machineseries) |
| standard output | `servemark run --json` with `--repeat` or a range | [Series](#series) |
| standard output | `servemark compare A B --json` | [SavedComparison](#savedcomparison) |
| standard output | `servemark history DIR --json` | [History](#history) |

A mix and `--max-rate` write a directory for each run within theirs. More files may stand beside `result.json`:

- `histograms.json`: each distribution with samples, like `latency_us`, in HdrHistogram's V2 format, base64, in µs.
- `examples.jsonl` of a quality run: a line for each scored example.
- `requests.csv` with `--request-log`: a line for each [request](#requests).
- `requests.parquet` and `series.parquet` from `servemark report RESULT --format parquet`.
"""
_TABLES = {
    "Requests": ("A row for each request, in the order of their outcomes, those of the warm-up too.", REQUESTS),
    "Figures over time": (
        "A row for each point of each figure in `series.parquet`. The points of one figure stand together, in order.",
        SERIES,
    ),
}
_FIGURES = """## Figures

Every figure that a result may have, from `servemark/figures/`. `servemark list figures` prints them one by one.

- `--slo`, `--fail-on` and `history --metric` take each one that has a better direction, by its tag or its name in
  brackets. `p99` is `latency.p99`, `service_p99` is `service_time.p99`.
- `POINT` is {points}. Any other percentile can be named, too.
- A percentile counts a failed request as longer than every other one. The other points are of the answered requests.

| figure | unit | better | meaning |
|---|---|---|---|
"""
_DOCUMENTS = (Header, *(types[0] for types in KINDS.values()))
MIN_SHARED = 5
"""A type with fewer keys is not worth a link."""
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null", Any: "any"}
_METRICS = """# Metrics of a run

What `--metrics-port` exposes while a run goes on ([how to watch it](../../guides/watching.md)). This page is made from
`servemark/telemetry/metrics/catalog.py`.

Each [figure of a result](result.md#figures) is a gauge in Prometheus's base units, unless it is of a histogram. Those
of throughput, errors and late requests are computed about once a second. The others come with the result, at the end.
A figure that is not known is absent.

Every sample has the labels {labels}. A label that is not known is empty. `run` is the
result's directory, from `--out`. Counters and histograms count the requests of the measured interval, as the result
does.

Each histogram has {buckets} buckets, from {low:g} ms to {high:g} s. For the schedule delay they begin at {delay:g} ms.
A p99 that is read from them differs from the result's by at most 10 %.

Triton's own metrics have its own names (`nv_inference_*`), at Triton's port.

| metric | type | own labels | meaning |
|---|---|---|---|
"""


def write(folder: Path = FOLDER) -> None:
    """Write each page that is not there or not current, so that a second build reads only what changed."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        file, text = folder / f"{name}.md", page()
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def metrics_page() -> str:
    """Describe each metric that a run exposes."""
    head = _METRICS.format(
        labels=", ".join(f"`{label}`" for label in RUN_LABELS),
        buckets=len(bounds_s(LOWEST_S)) + 1,
        low=LOWEST_S * 1e3,
        high=HIGHEST_S,
        delay=LOWEST_DELAY_S * 1e3,
    )
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |"
        for each in by_name().values()
    ]
    return head + "\n".join(rows) + "\n"


def result_page() -> str:
    """Describe each file and key of a result."""
    documents: list[type] = []
    for document in _DOCUMENTS:
        _collect(document, documents)
    tables = (_table(title, *table) for title, table in _TABLES.items())
    return "\n".join([_RESULT, _figures(), *tables, *(_section(document, documents) for document in documents)])


def _figures() -> str:
    """The table of all figures; those of a distribution stand in one row."""
    latency = distributions()["latency"]
    points = [f"`{each.tag.removeprefix('latency.')}`" for each in latency.figures]
    rows = dict.fromkeys(map(_row, registry().values()))
    return _FIGURES.format(points=f"{', '.join(points[:-1])} or {points[-1]}") + "\n".join(rows) + "\n"


def _row(figure: Figure) -> str:
    whole = figure.distribution
    tag, about = (f"{whole.tag}.POINT", whole.help) if whole else (figure.tag, figure.help)
    short = f" (`{figure.short}`)" if figure.short else ""
    return f"| `{tag}`{short} | {figure.unit.name} | {figure.better or ''} | {about} |"


def _table(title: str, about: str, columns: Sequence[Column]) -> str:
    """The columns of a table."""
    rows = [f"| `{each.name}` | {each.type}{' or null' * each.nullable} | {each.description} |" for each in columns]
    return "\n".join([f"## {title}\n\n{about}\n\n| column | type | what |\n|---|---|---|", *rows, ""])


def _collect(document: type, documents: list[type]) -> None:
    """Add a type, then those that it holds."""
    if document not in documents:
        documents.append(document)
        for kind, _, _ in fields_of(document).values():
            for held in _documents_in(kind):
                _collect(held, documents)


def _section(document: type, documents: Sequence[type]) -> str:
    """A type's keys; those of another type that it has all of stand there alone."""
    fields = fields_of(document)
    parts = [part for part in documents if part != document and fields_of(part).items() < fields.items()]
    shared = max(parts, key=lambda part: len(fields_of(part)), default=None)
    if shared and len(fields_of(shared)) < MIN_SHARED:
        shared = None
    rows = [
        f"| `{key}`{'' if always else ' (not always)'} | {_name(kind)} | {description} |"
        for key, (kind, description, always) in fields.items()
        if not shared or key not in fields_of(shared)
    ]
    also = f"All keys of {_name(shared)}, and:\n\n" if shared else ""
    head = f"## {document.__name__}\n\n{summary_of(document)}\n\n{also}| key | type | what |\n|---|---|---|"
    return "\n".join([head, *rows, ""])


def _documents_in(kind: Any) -> list[type]:
    """The documents that a type holds, at any depth of lists and alternatives."""
    return [kind] if is_typeddict(kind) else [each for part in get_args(kind) for each in _documents_in(part)]


def _name(kind: Any) -> str:
    """A type in words, with links to the sections of documents."""
    origin, parts = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    if origin in {Union, types.UnionType}:
        return " or ".join(_name(part) for part in parts)
    if origin is list:
        return f"list of {_name(parts[0])}"
    if origin is dict:
        return f"map to {_name(parts[1])}"
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    return _NAMES[kind]


PAGES: Mapping[str, Callable[[], str]] = {"result": result_page, "metrics": metrics_page, "cards": cards}

if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
