"""Saved runs, also those of a baseline: by subject, which of them count, and how the circumstances of two differ.

A baseline is a result that is kept under a name, for later ones to be compared with.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servemark.compare.interleaved.turn import COMPARISON_FILE, unmet
from servemark.documents.saved_load import load_key, load_name
from servemark.errors import OptionError, ResultError
from servemark.figures.registry import value_of
from servemark.paths import BASELINES, found, shown
from servemark.results import directory as results
from servemark.results.saved import runs_below
from servemark.results.schema.comparison import ComparisonDocument, DifferingKey
from servemark.results.schema.header import Header
from servemark.results.schema.run import Result, RunHeader
from servemark.results.served_config import DIGEST, KEY, flat, meaning
from servemark.results.verdict import About, Kind, about, consequences, failed_constraints, of_the_server
from servemark.stats.histogram import Histogram

_VARYING = {"collected", "load_average"}
"""Keys of an environment that differ from run to run by themselves."""
_SERVED = ("engine", "device", "provider", "precision", "artifact_sha256", "shared_memory", "protocol")
"""Keys of the served model and its connection, as the server and the export give them."""
_PLACES = {f"request.{name}" for name in ("server.url", "server.model_name", "server.model_repository", "live.out")}
"""Fields of a request that give a place."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

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


Subjects = dict[Key, list[Run]]
"""Runs of one side by subject."""


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
    if path.is_file() and path.name not in {results.RESULT_FILE, COMPARISON_FILE}:
        raise ResultError(f"{path} is not a result", fix="name a result directory")
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


def subjects(runs: Sequence[Run]) -> Subjects:
    """Group runs by subject; those of one key are repeats."""
    found: Subjects = {}
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


def faults(result: Result, *, interleaved: bool = False) -> list[str]:
    """Return the constraints that make a run's figures unfit to compare; if there are none, the run counts.

    They are those of a machine or generator that disturbed the run; other work on the machine counts only if the other
    side's runs were not `interleaved`. A server's failure is not one of them, because a side without its failing runs
    would look better than it is.
    """
    names = unmet(result) if interleaved else failed_constraints(result["verdict"])
    evidence = of_the_server(names)
    if evidence:
        evidence += consequences(names)
    return [name for name in names if name not in evidence]


@dataclass(frozen=True)
class Side:
    """The runs of one side that count; `trouble` says why they cannot be judged, None: they can."""

    name: str
    runs: Sequence[Run]
    note: str | None = None
    """Remark about the runs for the reader."""
    trouble: str | None = None

    @property
    def latencies(self) -> list[Histogram]:
        """The latencies of each run."""
        return [run.latency for run in self.runs]

    @classmethod
    def of(cls, name: str, runs: Sequence[Run], other: Sequence[Run] = (), *, allow_invalid: bool) -> "Side":
        """Leave out the runs that do not count, while they are fewer than half and two remain.

        `other` are the runs of the other side, if the n-th of both belong to one round: a round counts as a whole.
        """
        broken = _broken(runs, interleaved=bool(other))
        lost = broken.keys() | _broken(other, interleaved=True).keys()
        kept = [run for index, run in enumerate(runs) if index not in lost]
        few = f"{name} has {len(runs)} run{'s' * (len(runs) != 1)}: measure with --repeat 5, or more --rounds"
        if not broken:
            counted = runs if allow_invalid or len(kept) < 2 else kept
            return cls(name, counted, trouble=None if len(runs) > 1 else few)
        why = ", ".join(sorted({constraint for names in broken.values() for constraint in names}))
        are = "is" if len(broken) == 1 else "are"
        note = f"{name}: {len(broken)} of {len(runs)} runs {are} INVALID ({why})"
        if allow_invalid:
            return cls(name, runs, f"{note} and counted by --allow-invalid", None if len(runs) > 1 else few)
        if len(kept) < 2 or 2 * len(lost) >= len(runs):
            # More of the same do not help where other work disturbs them.
            failed = why.split(", ")
            by_others = about(failed, About.MACHINE) or about(failed, About.GENERATOR) or Kind.STEADY_STATE in failed
            remedy = "stop other work on this machine and measure again" if by_others else "measure again"
            return cls(name, runs, note, f"{note}: {remedy}, or --allow-invalid")
        return cls(name, kept, f"{note} and left out")


def _broken(runs: Sequence[Run], *, interleaved: bool) -> dict[int, list[str]]:
    """Return the runs that do not count, by number, with the failed constraints."""
    found = {index: faults(run.result, interleaved=interleaved) for index, run in enumerate(runs)}
    return {index: names for index, names in found.items() if names}


def names_of(sides: tuple[str, str]) -> tuple[str, str]:
    """Name two sides: by their folders if these differ, else as they were given."""
    first, second = (_folder(side) for side in sides)
    if first != second:
        return first, second
    return sides if sides[0] != sides[1] else (f"{sides[0]} (A)", f"{sides[1]} (B)")


def _folder(side: str) -> str:
    """Return the last folder that all of a side's paths share."""
    paths = [Path(part).resolve() for part in side.split(",")]
    folders = [path.parent if path.suffix == ".json" else path for path in paths]
    return Path(os.path.commonpath(folders)).name or side


def keep_baseline(name: str, result: Path, *, replace: bool) -> Path:
    """Copy a result, a comparison or a folder of repeats, and return the copy. Raises OptionError, ResultError."""
    if not _NAME.fullmatch(name):
        raise OptionError(f"{name!r} cannot be a baseline's name", fix="letters, digits, '.', '-' and '_'")
    if not result.exists():
        raise ResultError(f"there is no result {result}", fix="name a result directory")
    read_side(str(result))
    kept = BASELINES / name
    if kept.exists() and not replace:
        raise OptionError(f"there is a baseline {name} already, {shown(kept)}", fix="--force replaces it")
    part = BASELINES / f".{name}.part"
    try:
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree((result if result.is_dir() else result.parent).resolve(), part)
        shutil.rmtree(kept, ignore_errors=True)
        part.rename(kept)
    except OSError as error:
        raise ResultError(f"{kept} cannot be written: {error.strerror or error}", fix="make room there") from error
    return kept


def baseline(name: str) -> Path:
    """Find a baseline. Raises OptionError."""
    if name not in (names := baseline_names()):
        known = f", only {', '.join(names)}" if names else ""
        raise OptionError(f"there is no baseline {name}{known}", fix=f"servemark baseline {name} RESULT keeps one")
    return BASELINES / name


def baseline_names() -> list[str]:
    """The names of the baselines there are."""
    return sorted(path.name for path in BASELINES.glob("*") if _NAME.fullmatch(path.name))
