"""A labelled data set through a served model, or through its engine in this process: how right the answers are."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from loadgen.inputs.labels import labelled_set, metric_of
from loadgen.load.load_config import LoadConfig
from loadgen.sut.target import Placement, Target
from loadgen.targets.open import open_target
from servemark.errors import InputDataError, ResultError
from servemark.output import note
from servemark.quality.document import score, weights_of
from servemark.quality.journal import Journal
from servemark.quality.scoring import Scorer, chosen, digest_of
from servemark.results import directory as results
from servemark.results.schema.header import opening
from servemark.results.schema.quality import QualityErrors, QualityResult
from servemark.runs.in_process import targets_for
from servemark.runs.labelled import Labels, ScoredLoad
from servemark.runs.server import one_server_for

KIND = "quality"
REPEATED_EXAMPLES = 4
"""Examples of an earlier run that are read again, to see that the data are still the same."""
_ASKED = ("workload", "engine", "precision", "inputs", "objectives")
"""Parts of the request that are equal in a run that another one continues."""
_PLACE = ("artifact_sha256", "device", "provider", "protocol")
"""Keys that must agree if answers are combined: the same artifact in the same place."""


def labels_of(config: LoadConfig, samples: int | None) -> Labels:
    """Read the labelled data set of a configuration's workload. Raises OptionError, InputDataError."""
    metric, asked = metric_of(config)
    data = labelled_set(config)
    source = str(config.workload.dataset) if config.input_data == "dataset" else config.input_data
    return Labels(metric, asked, data, source, samples, chosen(data.size, samples, config.seed))


def run_quality(
    config: LoadConfig,
    *,
    samples: int | None = None,
    fresh: bool = False,
) -> tuple[Path, QualityResult]:
    """Score a workload and write the result; the directory and the result.

    An interrupted run of the same options, artifact and device is continued in its directory, unless `fresh`. Raises
    ServemarkError, KeyboardInterrupt after what was scored is kept.
    """
    labels = labels_of(config, samples)
    with _target(config) as (served, target):
        return measure(served, target, labels, fresh=fresh, own_server=served is not config)


@contextlib.contextmanager
def _target(config: LoadConfig) -> Iterator[tuple[LoadConfig, Target]]:
    if config.server.in_process:
        with targets_for(config) as target_of:
            yield config, target_of(config)
        return
    with one_server_for(config) as served:
        target = open_target(served)
        try:
            yield served, target
        finally:
            target.close()


def measure(
    config: LoadConfig, target: Target, labels: Labels, *, fresh: bool, own_server: bool
) -> tuple[Path, QualityResult]:
    """Score what a target answers, and write the result before and after."""
    placement = target.prepare()
    pending = _pending(config, target, placement, labels, own_server=own_server)
    found = None if fresh else _interrupted(config.out, pending)
    directory = found or results.new_directory(config.out, f"{config.model}-quality")
    with Journal(directory) as journal:
        _require_same(journal, labels, directory)
        continued = len(journal.scored)
        if continued:
            note(f"continuing {directory}: {continued:,} of {len(labels.examples):,} examples are scored")
        results.write(directory, pending)
        sending = ScoredLoad(config, target, labels, Scorer(labels.metric, labels.data, journal))
        try:
            sending.run()
        except KeyboardInterrupt:
            results.write(directory, _whole(pending, config, labels, sending, continued, partial=True))
            note(f"{len(journal.scored):,} of {len(labels.examples):,} examples are kept; the same command continues")
            raise
        result = _whole(pending, config, labels, sending, continued, partial=False)
    results.write(directory, result)
    return directory, result


def _pending(
    config: LoadConfig, target: Target, placement: Placement, labels: Labels, *, own_server: bool
) -> QualityResult:
    """The result before anything is scored."""
    manifest = config.entry.read_manifest() or {}
    return {
        **opening(),
        "kind": "quality",
        "request": config.to_dict(),
        "resolved": {**target.config, "samples": labels.samples, "own_server": own_server},
        "workload": config.workload.name,
        "engine": placement.engine,
        "device": placement.device,
        "provider": placement.provider,
        "precision": config.precision,
        "protocol": target.protocol,
        "artifact_sha256": manifest.get("artifact_sha256"),
        "quality": None,
        "errors": {"count": 0, "by_kind": {}, "messages": {}},
        "seconds": 0.0,
        "partial": True,
    }


def _whole(
    pending: QualityResult, config: LoadConfig, labels: Labels, sending: ScoredLoad, continued: int, *, partial: bool
) -> QualityResult:
    scored = list(sending.scorer.journal.scored.values())
    errors: QualityErrors = {
        "count": sending.errors.total(),
        "by_kind": dict(sending.errors),
        "messages": sending.messages,
    }
    found = None
    if scored:
        found = score(
            labels.metric,
            labels.asked,
            scored,
            weights=weights_of(config.workload, config.entry),
            source=labels.source,
            size=labels.data.size,
            samples=labels.samples,
            seed=config.seed,
            continued=continued,
        )
    return {**pending, "quality": found, "errors": errors, "seconds": sending.seconds, "partial": partial}


def _interrupted(out: Path, pending: QualityResult) -> Path | None:
    """The newest interrupted run of the same options, artifact and device, None where there is none."""
    for folder in sorted(out.glob("*-quality*"), reverse=True):
        with contextlib.suppress(ResultError):
            result = results.read(folder)
            same = (
                result.get("kind") == KIND
                and all(result[key] == value for key, value in pending.items() if key in _PLACE)
                and all(result["request"][key] == pending["request"][key] for key in _ASKED)
                and _subset_and_server(result["resolved"]) == _subset_and_server(pending["resolved"])
            )
            if same:
                return folder if result["partial"] else None
    return None


def _subset_and_server(resolved: Mapping[str, Any]) -> tuple[Any, ...]:
    """Identify the examples, the model and the server: one of our own equals another, whatever its port."""
    server = "own" if resolved.get("own_server") else resolved.get("url")
    return resolved["samples"], resolved["model"], server


def _require_same(journal: Journal, labels: Labels, directory: Path) -> None:
    """Check that examples which were scored before are still the same. Raises InputDataError."""
    for number in sorted(journal.scored)[:REPEATED_EXAMPLES]:
        if number >= labels.data.size or digest_of(labels.data.example(number)) != journal.scored[number].digest:
            raise InputDataError(
                f"example {number} is not what {directory} has scored: the data set has changed", fix="add --fresh"
            )
