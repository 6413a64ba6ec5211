"""The result of a run, `result.json`: one load, a mix of several, or the run that stands for a search."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from servemark.figures.value import FigureValue
from servemark.results.schema.details import ColdStart, CommandRun, Details, StageFigures, WindowFigures
from servemark.results.schema.explanation import Explanation
from servemark.results.schema.header import KIND, Header
from servemark.results.schema.search import Curve, MaxRateSearch
from servemark.results.schema.verdict import LimitedBy, VerdictOfRun


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


REQUEST = (
    "What was asked for: the document that `servemark rerun` and `run --config` read (`servemark schema request`)."
)


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
