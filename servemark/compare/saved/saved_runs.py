"""Saved runs, grouped by their subject, and the differences between the circumstances of two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servemark.compare.interleaved.document import COMPARISON_FILE
from servemark.documents.saved_load import load_key, load_name
from servemark.errors import ResultError
from servemark.figures.registry import value_of
from servemark.paths import found
from servemark.results import directory as results
from servemark.results.saved import runs_below
from servemark.results.schema.comparison import ComparisonDocument, DifferingKey
from servemark.results.schema.header import Header
from servemark.results.schema.run import Result, RunHeader
from servemark.results.served_config import DIGEST, KEY, flat, meaning
from servemark.stats.histogram import Histogram

_VARYING = {"collected", "load_average"}
"""Keys of an environment that differ from run to run by themselves."""
_SERVED = ("engine", "device", "provider", "precision", "artifact_sha256", "shared_memory", "protocol")
"""Keys of the served model and its connection, as the server and the export give them."""
_PLACES = {f"request.{name}" for name in ("server.url", "server.model_name", "server.model_repository", "live.out")}
"""Fields of a request that give a place."""


Key = tuple[str, str, str, int]
"""Workload, engine, load and batch size."""


@dataclass(frozen=True)
class Run:
    """One saved run; `label` names the engine as its comparison did."""

    label: str
    result: Result
    latency: Histogram

    @property
    def key(self) -> Key:
        """Identity of the measured subject: runs with equal keys are repeats."""
        result = self.result
        return result["workload"], self.label, load_key(result), result["batch_size"]

    @property
    def subject(self) -> str:
        """Description of the measured subject."""
        result = self.result
        load = f"{load_name(result)}, batch {result['batch_size']}"
        return f"{result['workload']} on {self.label}, {load}"


def read_side(text: str) -> list[Run]:
    """Read one side: results, comparisons, or directories of results, separated by commas. Raises ResultError."""
    runs = [run for path in text.split(",") for run in _read(found(path))]
    if not runs:
        raise ResultError(f"{text} holds no result", fix="name result directories that `servemark run` made")
    return runs


def _read(path: Path) -> list[Run]:
    if not path.exists():
        fix = "name result directories; engines are compared by `servemark compare WORKLOAD --engines A,B`"
        raise ResultError(f"there is no result {path}", fix=fix)
    if (path / COMPARISON_FILE).is_file():
        listed = results.read_as(path / COMPARISON_FILE, ComparisonDocument)["turns"]
        return [_run(path / turn["directory"], turn["label"]) for turn in listed if not turn["partial"]]
    if path.is_dir() and not (path / results.RESULT_FILE).is_file():
        return [_run(file.parent) for file in runs_below(path)]
    return [_run(path if path.is_dir() else path.parent)]


def _run(directory: Path, label: str | None = None) -> Run:
    result = results.read_run(directory)
    if result["partial"]:
        raise ResultError(f"{directory} was cut short", fix="leave it out, or measure it again")
    return Run(label or engine_of(result), result, results.read_latency(directory, result))


def engine_of(result: Result) -> str:
    """Return the engine, with its precision unless that is fp32."""
    precision = "" if result["precision"] in {None, "fp32"} else f"@{result['precision']}"
    return f"{result['engine']}{precision}"


def subjects(runs: Sequence[Run]) -> dict[Key, list[Run]]:
    """Group runs by subject; those of one key are repeats."""
    found: dict[Key, list[Run]] = {}
    for run in runs:
        found.setdefault(run.key, []).append(run)
    return found


def differing(first: RunHeader, second: RunHeader) -> list[DifferingKey]:
    """Return the keys of configuration and environment that differ between two results, with both values."""
    # Of a configuration that is too large to be kept there is the digest.
    whole = all(result.get(KEY) is not None for result in (first, second))
    return differing_keys(*(_circumstances(result) | _served_config(result, whole=whole) for result in (first, second)))


def differing_keys(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[DifferingKey]:
    """Return the dotted keys of two trees whose values differ, with both values."""
    keys = [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
    # A group is named only if none of its keys is.
    told = [key for key in keys if not any(other.startswith(f"{key}.") for other in keys)]
    return [{"key": key, "a": a.get(key), "b": b.get(key)} for key in told]


def _circumstances(result: RunHeader) -> dict[str, Any]:
    config = {key: value for key, value in flat(result["request"], "request.").items() if key not in _PLACES}
    served = {key: result.get(key) for key in _SERVED}
    # Not what was asked for: `auto` decides by the machine. Cores that do not idle answer sooner.
    awake = {"generator.cpu_latency": value_of(result, "generator.cpu_latency")}
    return config | served | awake | circumstances(result)


def circumstances(document: Header) -> dict[str, Any]:
    """A document's environment by key, but for what differs by itself."""
    return flat({key: value for key, value in document["environment"].items() if key not in _VARYING})


def _served_config(result: RunHeader, *, whole: bool) -> dict[str, Any]:
    config = result.get("model_config")
    return meaning(config, f"{KEY}.") if whole and config is not None else {DIGEST: result.get(DIGEST)}
