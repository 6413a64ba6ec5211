"""Documents of one run: of a load, a quality run, an MLPerf scenario; the series beside them, and live figures.

A load is one workload, a mix of several, or the run that stands for a search.
"""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from servemark.figures.value import FigureValue
from servemark.results.schema.details import (
    ColdStart,
    CommandRun,
    CpuDetails,
    Details,
    ErrorDetails,
    LimitedBy,
    OutputDetails,
    QualityScore,
    StageFigures,
    VerdictOfRun,
    WindowFigures,
)
from servemark.results.schema.explanation import Explanation
from servemark.results.schema.header import KIND, REQUEST, Header
from servemark.results.schema.search import Curve, MaxRateSearch


class TraceLoad(TypedDict):
    """A trace of arrival times."""

    sha256: Annotated[str, "Digest of the file: equal for equal traces."]
    arrivals: Annotated[int, "Arrivals in the trace."]
    samples: Annotated[bool, "Whether the trace names the sample of each arrival."]
    first: Annotated[str | None, "When the first arrival came (ISO 8601). Null: times count from 0."]


class WarmUp(TypedDict):
    """End of a warm-up that ends by itself."""

    method: Annotated[str, "Rule that finds the end of the initial transient: `MSER` (White 1997)."]
    longest_s: Annotated[float, "Its bound (s)."]
    steady: Annotated[bool | None, "Whether the latency was steady when it ended. Null: too few answers to tell."]
    steady_from_s: Annotated[float | None, "After how many seconds the latency was steady."]
    reason: NotRequired[Annotated[str, "Why it went on to its bound."]]


class Scenario(TypedDict):
    """The load as it was made, beside what `request.load` asks for."""

    gamma_cv: Annotated[float | None, "Standard deviation of gamma gaps over their mean. Null: other gaps."]
    duration_s: Annotated[
        float, "Length of the measured interval (s): a trace has its own, a search prolongs its runs."
    ]
    measured_s: Annotated[float | None, "Measured seconds. A closed loop goes on until each connection has an answer."]
    warmup_s: Annotated[
        float | None, "Seconds before the measured interval. Null where a run was cut short in a warm-up of `auto`."
    ]
    warmup: NotRequired[Annotated[WarmUp, "How a warm-up of `auto` ended."]]
    trace: Annotated[TraceLoad | None, "The trace that was replayed. Null: another load."]


class Tls(TypedDict):
    """Security of the connection."""

    ca: Annotated[str, "File of the trusted CA, or `system`."]
    client_certificate: Annotated[bool, "Whether the client has a certificate of its own."]
    unverified: NotRequired[Annotated[bool, "There and true: --tls-insecure, so that anybody may have answered."]]
    version: NotRequired[Annotated[str, "TLS version that was agreed on."]]
    cipher: NotRequired[Annotated[str, "Cipher that was agreed on."]]


class LanguageModelConfig(TypedDict):
    """A language model, and how a beam search weighed it."""

    file: Annotated[str, "The KenLM file."]
    sha256: Annotated[str, "Its digest."]
    alpha: Annotated[float, "Weight of its log-probability."]
    beta: Annotated[float, "Added for each word."]
    beam_width: Annotated[int, "Texts that the search kept."]


class Resolved(TypedDict):
    """Values that a request leaves open, as they were resolved."""

    url: Annotated[str | None, "Server. Of several the first. Null in-process."]
    urls: NotRequired[Annotated[list[str], "Several servers, which took the requests in turn."]]
    model: Annotated[str | None, "Name of the model on the server. Null: a mix has several."]
    windows: Annotated[int, "Windows of the measured interval."]
    language_model: NotRequired[
        Annotated[LanguageModelConfig, "What decoded the answers that were scored. Missing: no language model."]
    ]
    tls: NotRequired[Annotated[Tls | None, "How the connection is secured. Null without TLS."]]
    headers: NotRequired[Annotated[list[str] | None, "Names of the headers of every request, never their values."]]
    input_tensor_format: NotRequired[
        Annotated[
            Literal["binary", "json"],
            "HTTP: how inputs travelled. `json` by itself where the server lists no binary_tensor_data.",
        ]
    ]
    output_tensor_format: NotRequired[Annotated[Literal["binary", "json"], "HTTP: how outputs travelled."]]
    streaming: NotRequired[Annotated[bool, "gRPC: one stream for each connection."]]
    shared_memory_device: NotRequired[Annotated[str | None, "The GPU whose memory is shared."]]
    instances: NotRequired[Annotated[int, "In-process: instances of the model."]]
    engine_options: NotRequired[Annotated[dict[str, Any], "In-process: options of the engine."]]
    mix: NotRequired[
        Annotated[dict[str, float], "Mix: workload, with its requests' sizes -> its share of the arrivals."]
    ]
    rate: NotRequired[Annotated[float, "--max-rate: arrivals per second of the run that stands for the search."]]


class Worker(TypedDict):
    """One of several processes that sent the load."""

    index: Annotated[int, "Number of the process."]
    host: Annotated[str, "Machine."]
    pid: Annotated[int, "Process id."]
    requests: Annotated[int, "Requests of its share."]
    schedule_delay_p99_ms: Annotated[float | None, "Its schedule delay at p99 (ms)."]
    schedule_delay_p99_ci95_ms: NotRequired[Annotated[list[float] | None, "95 % interval of that (ms)."]]
    cpu_utilization: Annotated[float | None, "Share of one core that it used."]
    priority: NotRequired[Annotated[str | None, "Priority of its sending thread. Null: it has not said."]]
    priority_note: NotRequired[Annotated[str | None, "Why it is no better one."]]
    max_in_flight: Annotated[int, "Most requests that it had in flight."]
    clock_uncertainty_ms: Annotated[float, "Largest error of its clock: half of the shortest round trip (ms)."]
    trouble: Annotated[str | None, "Why its share is not what was asked for. Null where it is."]


class Telemetry(TypedDict):
    """A place to which the run's metrics were sent."""

    to: Annotated[str, "What takes them: `otlp`, an OpenTelemetry collector."]
    url: Annotated[str, "Where it is."]
    sent: Annotated[int, "How often they were taken."]
    failed: Annotated[int, "How often they were not."]
    error: Annotated[str | None, "Why the last of these failed. Null: none did."]


class MixPart(TypedDict):
    """One workload of a mix."""

    workload: Annotated[str, "As the mix names it, like `ranking` or `ranking:batch=8`."]
    share: Annotated[float, "Its share of the arrivals."]
    directory: Annotated[str, "Directory with its whole result, beside this file."]
    batch_size: Annotated[int, "Samples in a request."]
    verdict: Annotated[VerdictOfRun, "Its own verdict."]
    bottleneck: Annotated[LimitedBy, "What limited it."]
    figures: Annotated[dict[str, FigureValue], "Its own figures. The energy is known of the whole mix only."]
    details: Annotated[Details, "What it found that is not a number."]


class OneRun(Header):
    """Header of a document of one run: of a load, of a quality run, of an MLPerf scenario."""

    request: Annotated[dict[str, Any], REQUEST]
    workload: Annotated[str, "Name of the workload, or `mix`."]
    engine: Annotated[str | None, "Engine that ran, as the server reports it."]
    device: Annotated[str | None, "Device that ran: cpu or cuda:N."]
    provider: Annotated[str | None, "What of the engine ran, like an execution provider."]
    protocol: Annotated[str, "`http`, `grpc` or `in-process`."]


class RunHeader(OneRun):
    """Part of a result that is known before a run, and the parts that only some runs have."""

    kind: Annotated[Literal["load"], KIND]
    resolved: Annotated[Resolved, "What the request left open, as it was resolved."]
    seed: Annotated[int, "Seed of schedule and inputs."]
    task: Annotated[str, "Task of the workload."]
    suites: Annotated[list[str], "Suites that have the workload."]
    precision: Annotated[str | None, "Precision of the export."]
    model_config: NotRequired[
        Annotated[dict[str, Any] | None, "Triton's configuration of the model, without its name: 32 KiB at most."]
    ]
    model_config_sha256: NotRequired[
        Annotated[str | None, "Digest of that configuration, whatever its size: the same over HTTP and gRPC."]
    ]
    artifact_sha256: NotRequired[Annotated[str | None, "Digest of the exported model, by the local `export.json`."]]
    weights_sha256: NotRequired[Annotated[str, "Digest of weights (`--weights`) or of a model file of the user's own."]]
    batch_size: Annotated[int, "Samples in a request."]
    shared_memory: Annotated[str, "Where tensors lie: `none`, `system` or `cuda`."]
    scenario: Annotated[Scenario, "The load as it was made, beside what the request asks for."]
    workers: NotRequired[Annotated[list[Worker], "The processes that sent the load, where there were several."]]
    telemetry: NotRequired[
        Annotated[list[Telemetry], "--otlp: where the metrics of the run went. They change no figure."]
    ]
    mix: NotRequired[Annotated[list[MixPart], "Mix: each workload's own figures."]]
    commands: NotRequired[Annotated[list[CommandRun], "--at: commands that were run beside the load."]]
    cold_start: NotRequired[Annotated[ColdStart, "--cold-start: the server's start, and its first seconds."]]
    explanation: NotRequired[Annotated[Explanation, "--explain: where the time of the slowest requests went."]]
    max_rate: NotRequired[Annotated[MaxRateSearch, "--max-rate: the search. The rest is the run that stands for it."]]


class PendingResult(RunHeader):
    """A run that has not measured anything yet."""

    verdict: Annotated[None, "Not known yet."]
    bottleneck: Annotated[None, "Not known yet."]
    figures: Annotated[None, "Not known yet."]
    details: Annotated[None, "Not known yet."]
    windows: Annotated[list[WindowFigures], "None yet."]
    stages: Annotated[list[StageFigures], "None yet."]
    partial: Annotated[bool, "true"]


class Result(RunHeader):
    """The result of a run."""

    verdict: Annotated[VerdictOfRun, "Whether the run may be quoted, and whether it met its objectives."]
    bottleneck: Annotated[LimitedBy, "What limited the run."]
    figures: Annotated[dict[str, FigureValue], "Everything that was measured: tag -> value (`servemark list figures`)."]
    details: Annotated[Details, "What it found that is not a number."]
    windows: Annotated[
        list[WindowFigures],
        "Windows of the measured interval, in order: of 1 s for --at, --cold-start and a trace (in an hour at most), "
        "else at most 10.",
    ]
    stages: Annotated[list[StageFigures], "Stages of a load in stages, in order."]
    partial: Annotated[bool, "true: the run was cut short. The figures are of what was measured until then."]


class Series(TypedDict):
    """Document that `servemark run --json` prints for a range or --repeat."""

    results: Annotated[list[Result], "The runs in order."]
    curve: NotRequired[Annotated[Curve, "The curve of a range of rates."]]


class QualityResolved(Resolved):
    """Values that the request left open, as they were resolved."""

    samples: Annotated[int | None, "Size of the subset that was asked for. Null: all examples."]
    own_server: NotRequired[Annotated[bool, "Whether the server was started for this run, at a port of its own."]]


class QualityErrors(TypedDict):
    """Failed requests."""

    count: Annotated[int, "Failed requests."]
    by_kind: Annotated[dict[str, int], "Kind of failure -> count."]
    messages: Annotated[dict[str, str], "Kind of failure -> the server's first message."]


class QualityResult(OneRun):
    """The result of a quality run."""

    kind: Annotated[Literal["quality"], KIND]
    resolved: Annotated[QualityResolved, "What the request left open, as it was resolved."]
    precision: Annotated[str, "Precision that was asked for."]
    artifact_sha256: Annotated[str | None, "Digest of the model file. Null: it is not in the repository."]
    quality: Annotated[QualityScore | None, "What was found. Null: no example was scored."]
    errors: Annotated[QualityErrors, "Failed requests of the session that ended the run."]
    seconds: Annotated[float, "How long the requests of this run took (s)."]
    partial: Annotated[bool, "true: the run was cut short; the same command continues it."]


class Plan(TypedDict):
    """Settings that LoadGen is given."""

    scenario: Annotated[str, "SingleStream, MultiStream, Server or Offline."]
    expected_qps: Annotated[
        float, "Server: arrivals per second. Offline: what may be reached at most, from which LoadGen sizes its query."
    ]
    expected_latency_ms: Annotated[
        float, "SingleStream, MultiStream: what a query takes at least, from which LoadGen counts queries (ms)."
    ]
    min_duration_s: Annotated[float, "Shortest run (s)."]
    min_queries: Annotated[int, "Fewest queries."]
    latency_ms: Annotated[float | None, "Server: bound of the latency (ms). Null: another scenario, without one."]
    percentile: Annotated[float | None, "Server: percentile that keeps the bound."]
    bound_from: NotRequired[
        Annotated[str | None, "Origin of the bound: `--slo`, MLPerf's round, or the workload's own objective."]
    ]
    seed: Annotated[int, "Seed of schedule and samples."]
    accuracy: NotRequired[
        Annotated[bool, "Whether it was an accuracy run: each sample once; no duration and no latency counts."]
    ]


class MlperfDetails(TypedDict):
    """Details of this side, which are no numbers."""

    errors: Annotated[ErrorDetails, "Failed requests. LoadGen knows none, so that each makes the run invalid."]
    outputs: Annotated[OutputDetails, "Agreement of answers with golden ones."]
    cpu: Annotated[CpuDetails, "Who used this machine's cores."]
    quality: NotRequired[Annotated[QualityScore, "Of an accuracy run: its log, scored."]]


class MlperfResult(OneRun):
    """The result of an MLPerf scenario."""

    kind: Annotated[Literal["mlperf"], KIND]
    resolved: Annotated[Resolved, "What the request left open, as it was resolved."]
    scenario: Annotated[str, "MLPerf's scenario."]
    plan: Annotated[Plan, "What LoadGen is asked for."]
    precision: Annotated[str, "Precision that was asked for."]
    loadgen: Annotated[
        dict[str, Any],
        "LoadGen's own figures by its own names: `validity`, `version`, `early_stopping`, and those of its log.",
    ]
    figures: Annotated[dict[str, FigureValue], "What this side measured. Latency counts from LoadGen's call."]
    details: Annotated[MlperfDetails, "What this side found that is not a number."]
    verdict: Annotated[VerdictOfRun, "LoadGen's verdict and this side's."]
    partial: Annotated[bool, "true: the run was cut short."]


class SeriesColumn(TypedDict):
    """One figure over time."""

    name: Annotated[
        str,
        "Name, with its unit. This machine's are the Prometheus metrics without `servemark_`; Triton's are its own.",
    ]
    unit: Annotated[str, "Unit: ratio, bytes, watts, joules, celsius, hertz; of Triton's metrics as their names say."]
    labels: Annotated[dict[str, str], "Which one of several: gpu, reason, boundary, source; Triton's own."]
    counter: Annotated[bool, "Whether it only grows. A point is then the last reading, not their mean."]
    values: Annotated[list[float | None], "A value for each time. Null: it could not be read."]
    reason: Annotated[str | None, "Why values are null; where there were several reasons, the last."]


class Recorded(TypedDict):
    """Figures over the same time."""

    time_s: Annotated[list[float], "Time of each point: of its last reading, from the start (s)."]
    columns: Annotated[list[SeriesColumn], "The figures. Each has as many values as there are times."]


class SeriesOf(Recorded):
    """Readings of one thread."""

    source: Annotated[str, "machine: its meters; triton: the server's own metrics; else a name given to --scrape."]
    period_s: Annotated[float, "Seconds between two readings."]
    readings_per_point: Annotated[int, "Readings of a point. Beyond 6,000 points neighbours are joined: 2, 4, 8, ..."]
    readings: Annotated[int, "How often it read."]
    skipped: Annotated[int, "Readings that were left out: the one before took too long, or 2 % of a core."]
    cpu_s: Annotated[float, "CPU time of the thread (s)."]
    longest_ms: Annotated[float, "Longest reading (ms)."]
    absent: Annotated[dict[str, str], "What could not be read at all -> why."]


class MachineSeries(TypedDict):
    """Readings of the machines during a run. Times are the monotonic clock's, from the start of the reading."""

    schema_version: Annotated[Literal[4, 5], "As in `result.json`."]
    kind: Annotated[Literal["machine_series"], KIND]
    start_epoch_s: Annotated[float, "When the reading began, as seconds since 1970 (UTC) by the wall clock."]
    measured_from_s: Annotated[float, "Start of the measured interval, from the start (s)."]
    measured_until_s: Annotated[float, "Its end (s)."]
    series: Annotated[list[SeriesOf], "What each thread read."]


class LiveFigures(TypedDict):
    """Figures that a run sends about once a second. Times in ms if the name says so; null: not known yet."""

    time_s: float
    """Of the monotonic clock."""
    elapsed_s: float
    """Of the measured interval; below 0 in the warm-up."""
    auto_warmup: bool
    """True if the warm-up may end sooner."""
    whole_s: float
    answered: int
    """Good answers so far, those of the warm-up included."""
    asked_rate: float | None
    """Requests/s that the schedule asks for now; null in a closed loop and of a trace."""
    figures: dict[str, FigureValue]
    """The live figures, by tag."""
    second_p50_ms: float | None
    """Of the requests that were answered since the figures before."""
    second_p99_ms: float | None
    in_flight: int
    backlog: int
    queue: float | None
    """Requests that wait in the server, as its own metrics say."""
    errors: dict[str, int]
    power_w: dict[str, float]
    """Present power of each metered device, by its name."""
    constraints: dict[str, bool]
    """Those that can be judged so far."""
    objectives: dict[str, str]
    """Objective -> met, missed or undecided so far."""
