"""A labelled data set through a served model, or through its engine in this process: how right the answers are."""

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.inputs.sources import labelled_set, metric_of
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.probe import answer_each
from loadgen.sut.channel import Outcome, Payload
from loadgen.sut.target import Target
from loadgen.targets.open import open_target
from servemark.errors import InputDataError, ResultError, ServerError
from servemark.output import note
from servemark.quality.document import score, weights_of
from servemark.quality.metrics import Metric
from servemark.quality.scoring import Journal, Scorer, chosen, digest_of, rows_of
from servemark.quantities import duration_text
from servemark.results import directory as results
from servemark.results.schema.details import QualityScore
from servemark.results.schema.header import opening
from servemark.results.schema.run import QualityErrors, QualityResult
from servemark.runs.in_process import targets_for
from servemark.runs.server import one_server_for
from servemark.workload import LabelledSet, Quality, Sample, stack

ESTIMATE_AFTER_S = 2.0
"""Time after which the duration of the whole set is estimated and printed."""
FLUSH_EVERY_S = 1.0
FIRST_FAILURES = 20
"""Number of first requests that, if all fail, end the run, because a server that cannot answer has no quality."""
REPEATED_EXAMPLES = 4
"""Examples of an earlier run that are read again, to see that the data are still the same."""
_ASKED = ("workload", "engine", "precision", "inputs", "objectives")
"""Parts of the request that are equal in a run that another one continues."""
_PLACE = ("artifact_sha256", "device", "provider", "protocol")
"""Keys that must agree if answers are combined: the same artifact in the same place."""


@dataclass(frozen=True, slots=True)
class Query(Payload):
    """A request with the examples that its rows are of; rows that only fill the batch are of none."""

    parts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Labels:
    """Labels that a run scores: its configuration, the data, the metric, and the examples of a subset."""

    config: LoadConfig
    metric: Metric
    asked: Quality
    data: LabelledSet
    source: str
    samples: int | None
    examples: Sequence[int]

    def score(self, journal: Journal, *, continued: int = 0) -> QualityScore:
        """Score the examples of a journal, one at least; an earlier run scored `continued` of them."""
        config = self.config
        return score(
            self.metric,
            self.asked,
            list(journal.scored.values()),
            weights=weights_of(config.workload, config.entry),
            source=self.source,
            size=self.data.size,
            samples=self.samples,
            seed=config.seed,
            continued=continued,
        )


class ScoredLoad:
    """The requests of one run."""

    def __init__(self, target: Target, labels: Labels, journal: Journal) -> None:
        self._config, self._target, self._labels = labels.config, target, labels
        self.scorer = Scorer(labels.metric, labels.data, journal)
        self._left = [number for number in labels.examples if number not in journal.scored]
        self._requests = -(-sum(map(labels.data.requests_of, self._left)) // self._config.batch_size)
        self._answered = 0
        self._started = self._next_flush = 0.0
        self._estimated = False
        self.errors: Counter[str] = Counter()
        self.messages: dict[str, str] = {}
        self.seconds = 0.0

    def run(self) -> None:
        """Send all that is left. Raises ServerError where the first requests all fail."""
        self._started = time.monotonic()
        try:
            answer_each(
                self._target,
                self._queries(),
                self._requests,
                self._config.concurrency or 1,
                timeout_s=self._config.limits.request_timeout_s,
                on_outcome=self._outcome,
                on_tick=self._tick,
            )
        finally:
            self.seconds = time.monotonic() - self._started
            self.scorer.journal.flush()

    def _queries(self) -> Iterator[Query]:
        config, encode = self._config, self._target.encoder()
        samples = self.scorer.requests(self._left)
        while taken := list(itertools.islice(samples, config.batch_size)):
            # The answer of a batch is judged by its size: the last one is filled with its own first sample.
            rows: list[Sample] = [sample for _, _, sample in taken]
            rows += [rows[0]] * (config.batch_size - len(rows))
            parts = tuple((number, part) for number, part, _ in taken)
            # An engine in this process copies the outputs of what has known rows: it may use its buffers again.
            known = tuple(number for number, _ in parts)
            yield Query(encode(stack(rows, config.workload.inputs)), known, parts=parts)

    def _outcome(self, outcome: Outcome) -> None:
        assert isinstance(outcome.payload, Query)
        self._answered += 1
        parts, response = outcome.payload.parts, outcome.response
        error, said = outcome.error, outcome.message
        if error is None and response is not None:
            tensors = self._config.workload.outputs
            try:
                rows = list(rows_of(response.arrays(tensors), tensors))
            except ValueError as caught:  # it has the sizes of the outputs, and not their values
                error, said = "malformed_response", str(caught)
            else:
                for (number, part), row in zip(parts, rows, strict=False):
                    self.scorer.answered(number, part, row)
                return
        error = error or "no_answer"
        self.errors[error] += 1
        said = self._config.access.redact(said or (response.message() if response else ""))
        self.messages.setdefault(error, said)
        if self.errors.total() == self._answered == min(self._requests, FIRST_FAILURES):
            raise ServerError(f"none of the first {self._answered} requests was answered: {error} {said}")
        for number, part in parts:
            self.scorer.failed(number, part, error)

    def _tick(self, _now: int) -> None:
        now = time.monotonic()
        if now >= self._next_flush:
            self.scorer.journal.flush()
            self._next_flush = now + FLUSH_EVERY_S
        passed = now - self._started
        if not self._estimated and passed >= ESTIMATE_AFTER_S and self._answered:
            self._estimated = True
            left_s = passed * (self._requests - self._answered) / self._answered
            data, size = self._labels.data, self._labels.data.size
            whole_s = passed * data.first_request(size) / self._config.batch_size / self._answered
            other = (
                f"all {size:,} take {duration_text(whole_s)}" if self._labels.samples else "--samples N takes a subset"
            )
            done = f"{self._answered:,} of {self._requests:,} requests in {passed:.0f} s"
            note(f"{done}: about {duration_text(left_s)} to go; {other}")


def labels_of(config: LoadConfig, samples: int | None) -> Labels:
    """Read the labelled data set of a configuration's workload. Raises OptionError, InputDataError."""
    metric, asked = metric_of(config)
    data = labelled_set(config)
    source = str(config.workload.dataset) if config.input_data == "dataset" else config.input_data
    return Labels(config, metric, asked, data, source, samples, chosen(data.size, samples, config.seed))


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
    if config.server.in_process:
        with targets_for(config) as target_of:
            return measure(target_of(config), labels, fresh=fresh, own_server=False)
    with one_server_for(config) as served:
        target = open_target(served)
        try:
            return measure(target, labels, fresh=fresh, own_server=served is not config)
        finally:
            target.close()


def measure(target: Target, labels: Labels, *, fresh: bool, own_server: bool) -> tuple[Path, QualityResult]:
    """Score what a target answers, and write the result before and after."""
    config = labels.config
    pending = _pending(target, labels, own_server=own_server)
    found = None if fresh else _interrupted(config.out, pending)
    directory = found or results.new_directory(config.out, f"{config.model}-quality")
    with Journal(directory) as journal:
        _require_same(journal, labels, directory)
        continued = len(journal.scored)
        if continued:
            note(f"continuing {directory}: {continued:,} of {len(labels.examples):,} examples are scored")
        results.write(directory, pending)
        sending = ScoredLoad(target, labels, journal)

        def result(*, partial: bool) -> QualityResult:
            by_kind = dict(sending.errors)
            errors: QualityErrors = {"count": sum(by_kind.values()), "by_kind": by_kind, "messages": sending.messages}
            scored = labels.score(journal, continued=continued) if journal.scored else None
            return {**pending, "quality": scored, "errors": errors, "seconds": sending.seconds, "partial": partial}

        try:
            sending.run()
        except KeyboardInterrupt:
            results.write(directory, result(partial=True))
            note(f"{len(journal.scored):,} of {len(labels.examples):,} examples are kept; the same command continues")
            raise
        whole = result(partial=False)
    results.write(directory, whole)
    return directory, whole


def _pending(target: Target, labels: Labels, *, own_server: bool) -> QualityResult:
    """Return the result before anything is scored."""
    config, placement = labels.config, target.prepare()
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


def _interrupted(out: Path, pending: QualityResult) -> Path | None:
    """The newest interrupted run of the same options, artifact and device, None where there is none."""
    for folder in sorted(out.glob("*-quality*"), reverse=True):
        with contextlib.suppress(ResultError):
            result = results.read_as(folder, QualityResult)
            same = (
                all(result.get(key) == value for key, value in pending.items() if key in _PLACE)
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
