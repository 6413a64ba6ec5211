"""The reference of the documents from their types: `python -m tools.result_reference > docs/reference/result.md`."""

import types
from typing import Any, Literal, Union, get_args, get_origin, is_typeddict

import typer

from servemark.machine.environment import Environment
from servemark.results.schema.comparison import ComparisonDocument, SavedComparison
from servemark.results.schema.json_schema import fields_of, summary_of
from servemark.results.schema.mlperf import MlperfResult
from servemark.results.schema.run import Result, Series
from servemark.results.schema.suite import SuiteDocument
from servemark.results.schema.tuning import TuningDocument

_HEAD = """# The result

`python -m tools.result_reference` writes this page from the types in `servemark/results/schema/`. A test checks that it
is current. `servemark schema [KIND]` prints the same as a JSON Schema.

A run writes a directory `results/<time>-<model>/` with `result.json` and `histograms.json`. `--json` prints the former.

- Units are in the names (`_ms`, `_s`, `_w`, `_gb`). Rates are per second, shares from 0 to 1.
- An unknown figure is `null`. Its reason stands beside it as `<key>_reason`, or as `reason` for a whole group.
- What a scenario does not have (`concurrency` of an open loop) is `null` without a reason.
- A later version may add keys. A changed meaning raises `schema_version`.

[Metrics](../explanation/metrics.md) says how each figure is measured. [Verdict](../explanation/verdict.md) says how
a run is judged.

## Files

| file | from | document |
|---|---|---|
| `result.json` | `servemark run`, a locustfile | [Result](#result) |
| `result.json` | `servemark mlperf` | [MlperfResult](#mlperfresult) |
| `comparison.json` | `servemark compare WORKLOAD` | [ComparisonDocument](#comparisondocument) |
| `tuning.json` | `servemark tune` | [TuningDocument](#tuningdocument) |
| `suite.json` | `servemark suite` | [SuiteDocument](#suitedocument) |
| standard output | `servemark run --json` with `--repeat` or a range | [Series](#series) |
| standard output | `servemark compare A B --json` | [SavedComparison](#savedcomparison) |

A mix and `--max-rate` write a directory for each run within theirs. Two more files may stand beside `result.json`:

- `histograms.json`: `latency_us`, `service_time_us`, `schedule_delay_us` in HdrHistogram's V2 format, base64, in µs.
- `requests.csv` with `--request-log`: a line for each [request](../explanation/metrics.md#percentiles).
"""
_DOCUMENTS = (
    Result,
    Environment,
    Series,
    ComparisonDocument,
    SavedComparison,
    TuningDocument,
    SuiteDocument,
    MlperfResult,
)
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null", Any: "any"}


def reference() -> str:
    """The whole page."""
    shown: dict[type, str] = {}
    for document in _DOCUMENTS:
        _describe(document, shown)
    return "\n".join([_HEAD, *shown.values()])


def _describe(document: type, shown: dict[type, str]) -> None:
    """Add a section for a type, then for those that it holds."""
    if document in shown:
        return
    fields = fields_of(document)
    rows = [
        f"| `{key}`{'' if always else ' (not always)'} | {_name(kind)} | {description} |"
        for key, (kind, description, always) in fields.items()
    ]
    head = f"## {document.__name__}\n\n{summary_of(document)}\n\n| key | type | what |\n|---|---|---|"
    shown[document] = "\n".join([head, *rows, ""])
    for kind, _, _ in fields.values():
        for held in _documents_in(kind):
            _describe(held, shown)


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


if __name__ == "__main__":
    typer.echo(reference(), nl=False)
