"""The four MLPerf Inference scenarios, driven by MLCommons' own LoadGen over servemark's driver and channels.

LoadGen decides when queries go out, how many there are, and whether the run is VALID; it calls us in threads of its
own. The driver runs in the calling thread. A failed request is completed like any other, since LoadGen knows no
failures, and counted here: it makes the run INVALID.
Source: MLPerf Inference rules, section "Scenarios"; mlcommons/inference, loadgen.
"""

import itertools
import json
import os
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from loadgen.driver.connections import Connections
from loadgen.driver.event_loop import Driver
from loadgen.measurement.recorder import MAX_SAMPLED_RESPONSES
from loadgen.sut.channel import Answer, Outcome, Payload
from loadgen.sut.target import Target
from servemark import interrupts
from servemark.errors import ResultError, ServerError, parsing
from servemark.results.schema.run import Plan
from servemark.stats.histogram import Histogram

if TYPE_CHECKING:
    import mlperf_loadgen

MULTI_STREAM_SAMPLES = 8
"""Samples of a MultiStream query (rules, "Scenarios")."""
LIBRARY = 1024
"""Distinct samples that LoadGen draws from, where the round says no other number."""
CONNECT_AHEAD = 64
_ENTRY = ":::MLLOG"


@dataclass
class LoadGenOutcomes:
    """Outcomes seen by this side: latencies from LoadGen's call on, failures, and answers to golden samples."""

    latency: Histogram = field(default_factory=Histogram)
    errors: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)
    sampled: list[tuple[tuple[int, ...], Answer]] = field(default_factory=list)
    interrupted: bool = False

    def take(self, outcome: Outcome) -> None:
        """Count one outcome."""
        if outcome.error is not None:
            kind = str(outcome.error)
            self.errors[kind] += 1
            self.messages.setdefault(kind, outcome.words())
        elif outcome.payload.golden_rows and outcome.response and len(self.sampled) < MAX_SAMPLED_RESPONSES:
            self.sampled.append((outcome.payload.golden_rows, outcome.response))


@dataclass(frozen=True, slots=True)
class Query(Payload):
    """A request with LoadGen's number of the sample it answers."""

    id: int = 0


class LoadGenArrivals:
    """Arrivals that LoadGen hands over, from its own threads; `bell` wakes the driver."""

    def __init__(self, library: Sequence[Payload]) -> None:
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._library = library
        self._due: deque[int] = deque()
        self._queries: deque[Query] = deque()
        self._over = False
        self.failure: Exception | None = None
        """Reason why a sample could not be made."""

    def issue(self, samples: "Sequence[mlperf_loadgen.QuerySample]") -> None:
        """Take a query (LoadGen's callback)."""
        now = time.monotonic_ns()
        for sample in samples:
            try:
                if self.failure is None:
                    payload = self._library[sample.index]
            except Exception as error:
                # It must not reach LoadGen, which is C++ and would end the process.
                self.failure = error
            if self.failure is not None:
                _leave_out(sample.id)
                continue
            # In this order: a time without its query would have nothing to send.
            self._queries.append(Query(payload.request, payload.golden_rows, payload.examples, sample.id))
            self._due.append(now)
        os.eventfd_write(self.bell, 1)

    def end(self) -> None:
        """LoadGen is done."""
        self._over = True
        os.eventfd_write(self.bell, 1)

    def payloads(self) -> Iterator[Query]:
        """The queries in their order."""
        while True:
            yield self._queries.popleft()

    def next_due(self) -> int | None:
        return self._due[0] if self._due else None

    def pop(self) -> int:
        return self._due.popleft()

    def wanted(self, in_flight: int, now: int) -> int:  # noqa: ARG002 - LoadGen alone decides
        return 0

    def finished(self, now: int) -> bool:  # noqa: ARG002
        return self._over and not self._due


def run(
    target: Target,
    library: Sequence[Payload],
    plan: Plan,
    logs: Path,
    *,
    timeout_s: float,
    max_in_flight: int,
    logged: Callable[[Answer], bytes] = lambda _answer: b"",
) -> LoadGenOutcomes:
    """Run one scenario to LoadGen's end; its logs are written to `logs`. Raises ServerError where it is not installed.

    LoadGen draws from the library, of which an accuracy run sends each sample once; `logged` is what its log keeps of
    an answer. It cannot be stopped: a Ctrl-C leaves it behind in its thread, with logs that are not complete. Where a
    sample of the library cannot be made, the others are not sent, LoadGen comes to its end, and that error is raised.
    """
    require_loadgen()
    import mlperf_loadgen as official

    seen, handed, latencies = LoadGenOutcomes(), LoadGenArrivals(library), array("q")

    def answered(outcome: Outcome) -> None:
        assert isinstance(outcome.payload, Query)
        right = outcome.error is None and outcome.response is not None
        content = array("B", logged(outcome.response) if right and outcome.response else b"")
        address, size = content.buffer_info()
        official.QuerySamplesComplete([official.QuerySampleResponse(outcome.payload.id, address, size)])
        seen.take(outcome)
        if outcome.error is None:
            latencies.append(outcome.done - outcome.scheduled)

    connections = Connections(target.connect, max_in_flight)
    driver = Driver(connections, handed.payloads(), timeout_s=timeout_s, on_outcome=answered)
    driver.wake_on(handed.bell)
    connections.open_ahead(CONNECT_AHEAD)
    tester = Thread(target=_test, args=(plan, handed, len(library), logs), daemon=True)
    tester.start()
    try:
        driver.run(handed, lambda _now: interrupts.check())
    except KeyboardInterrupt:
        seen.interrupted = True
    finally:
        connections.close()
        seen.latency.record(np.array(latencies, np.int64))
    if not seen.interrupted:
        tester.join()
        os.close(handed.bell)
    if handed.failure is not None:
        raise handed.failure
    return seen


def first_of(requests: Iterator[Payload], samples: int) -> Sequence[Payload]:
    """The library of a performance run."""
    return list(itertools.islice(requests, samples))


def _leave_out(sample: int) -> None:
    """Tell LoadGen that a sample is done, without an answer."""
    import mlperf_loadgen as official

    official.QuerySamplesComplete([official.QuerySampleResponse(sample, 0, 0)])


def _test(plan: Plan, handed: LoadGenArrivals, samples: int, logs: Path) -> None:
    """LoadGen's own run, which blocks."""
    import mlperf_loadgen as official

    output = official.LogOutputSettings()
    output.outdir = str(logs)
    output.copy_summary_to_stdout = False
    settings = official.LogSettings()
    settings.log_output = output
    settings.enable_trace = False
    sut = official.ConstructSUT(handed.issue, lambda: None)
    library = official.ConstructQSL(samples, samples, lambda _: None, lambda _: None)
    try:
        official.StartTestWithLogSettings(sut, library, settings_of(plan), settings, "")
    finally:
        official.DestroyQSL(library)
        official.DestroySUT(sut)
        handed.end()


def read_accuracy_log(logs: Path) -> dict[int, bytes]:
    """Read the logged answer of each sample by its index; b"" if it failed. Raises ResultError."""
    file = logs / "mlperf_log_accuracy.json"
    with parsing(file, ResultError, fix="run it again"):
        return {entry["qsl_idx"]: bytes.fromhex(entry["data"]) for entry in json.loads(file.read_text())}


def read_log(logs: Path) -> dict[str, Any]:
    """LoadGen's own figures by their keys in mlperf_log_detail.txt (a line of JSON each, after `:::MLLOG`).

    Raises ResultError where the file is damaged, as a full disk leaves it.
    """
    file = logs / "mlperf_log_detail.txt"
    with parsing(file, ResultError, fix="run it again"):
        lines = [line for line in file.read_text().splitlines() if line.startswith(_ENTRY)]
        entries = [json.loads(line.removeprefix(_ENTRY)) for line in lines]
        return {str(entry["key"]): entry["value"] for entry in entries}


def why_invalid(log: Mapping[str, Any]) -> str:
    """LoadGen's words of why a run is INVALID, which of too few queries stand with early stopping; "" without any."""
    texts = (str(log.get(key) or "") for key in ("result_invalid_reason", "early_stopping_result"))
    return next((" ".join(words) for text in texts if (words := text.replace("*", " ").split())), "")


def settings_of(plan: Plan) -> "mlperf_loadgen.TestSettings":
    """Return a plan as LoadGen's settings: where it bounds the latency, that of Server, which alone needs it."""
    import mlperf_loadgen

    chosen = mlperf_loadgen.TestSettings()
    chosen.scenario = getattr(mlperf_loadgen.TestScenario, plan["scenario"])
    mode = mlperf_loadgen.TestMode
    chosen.mode = mode.AccuracyOnly if plan.get("accuracy") else mode.PerformanceOnly
    chosen.min_duration_ms = round(plan["min_duration_s"] * 1e3)
    chosen.min_query_count = plan["min_queries"]
    chosen.server_target_qps = chosen.offline_expected_qps = plan["expected_qps"]
    if plan["latency_ms"] is not None and plan["percentile"] is not None:
        chosen.server_target_latency_ns = round(plan["latency_ms"] * 1e6)
        chosen.server_target_latency_percentile = plan["percentile"] / 100
    chosen.single_stream_expected_latency_ns = round(plan["expected_latency_ms"] * 1e6)
    chosen.multi_stream_expected_latency_ns = round(plan["expected_latency_ms"] * 1e6)
    chosen.multi_stream_samples_per_query = MULTI_STREAM_SAMPLES
    for offset, name in enumerate(("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")):
        setattr(chosen, name, plan["seed"] * 3 + offset)
    return chosen


def require_loadgen() -> None:
    """Check that LoadGen is installed. Raises ServerError."""
    try:
        import mlperf_loadgen  # noqa: F401
    except ImportError as error:
        raise ServerError(f"LoadGen cannot be imported: {error}", fix="pip install -e '.[mlperf]'") from error
