"""Sends labelled examples through a target, once each, and hands their answers to the scorer."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadgen.load.load_config import LoadConfig
from loadgen.measurement.probe import answer_each
from loadgen.sut.channel import Outcome, Payload
from loadgen.sut.target import Target
from servemark.errors import ServerError
from servemark.output import note
from servemark.quality.metric import Metric
from servemark.quality.scoring import Scorer, rows_of
from servemark.quantities import duration_text
from servemark.workload import LabelledSet, Quality, Sample, stack

ESTIMATE_AFTER_S = 2.0
"""Time after which the duration of the whole set is estimated and printed."""
FLUSH_EVERY_S = 1.0
FIRST_FAILURES = 20
"""Number of first requests that, if all fail, end the run, because a server that cannot answer has no quality."""


@dataclass(frozen=True, slots=True)
class Query(Payload):
    """A request with the examples that its rows are of; rows that only fill the batch are of none."""

    parts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Labels:
    """Labels that a run scores: the data, the metric, and the examples of a subset."""

    metric: Metric
    asked: Quality
    data: LabelledSet
    source: str
    samples: int | None
    examples: Sequence[int]


class ScoredLoad:
    """The requests of one run."""

    def __init__(self, config: LoadConfig, target: Target, labels: Labels, scorer: Scorer) -> None:
        self._config, self._target, self._scorer = config, target, scorer
        self.left = [number for number in labels.examples if number not in scorer.journal.scored]
        self._requests = -(-sum(map(labels.data.requests_of, self.left)) // config.batch_size)
        self._labels = labels
        self._answered = 0
        self._started = self._next_flush = 0.0
        self._estimated = False
        self.errors: Counter[str] = Counter()
        self.messages: dict[str, str] = {}
        self.seconds = 0.0

    @property
    def scorer(self) -> Scorer:
        """Return the scorer of the examples."""
        return self._scorer

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
            self._scorer.journal.flush()

    def _queries(self) -> Iterator[Query]:
        config, encode = self._config, self._target.encoder()
        samples = self._scorer.requests(self.left)
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
        if outcome.error is None and response is not None:
            tensors = self._config.workload.outputs
            for (number, part), row in zip(parts, rows_of(response.arrays(tensors), tensors), strict=False):
                self._scorer.answered(number, part, row)
            return
        error = outcome.error or "no_answer"
        self.errors[error] += 1
        said = outcome.message or (response.message() if response else "")
        self.messages.setdefault(error, self._config.access.redact(said))
        if self.errors.total() == self._answered == min(self._requests, FIRST_FAILURES):
            raise ServerError(f"none of the first {self._answered} requests was answered: {error} {said}")
        for number, part in parts:
            self._scorer.failed(number, part, error)

    def _tick(self, _now: int) -> None:
        now = time.monotonic()
        if now >= self._next_flush:
            self._scorer.journal.flush()
            self._next_flush = now + FLUSH_EVERY_S
        passed = now - self._started
        if not self._estimated and passed >= ESTIMATE_AFTER_S and self._answered:
            self._estimated = True
            left_s = passed * (self._requests - self._answered) / self._answered
            whole_s = passed * self._whole_requests / self._answered
            size = self._labels.data.size
            other = (
                f"all {size:,} take {duration_text(whole_s)}" if self._labels.samples else "--samples N takes a subset"
            )
            done = f"{self._answered:,} of {self._requests:,} requests in {passed:.0f} s"
            note(f"{done}: about {duration_text(left_s)} to go; {other}")

    @property
    def _whole_requests(self) -> float:
        return self._labels.data.first_request(self._labels.data.size) / self._config.batch_size
