"""The result of a run, `result.json`: one load, a mix of several, or the run that stands for a search."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from servemark.machine.scheduling import PriorityFigures
from servemark.results.schema.header import KIND, Header
from servemark.results.schema.score import QualityScore
from servemark.stats.histogram import Latency, Percentiles


class StageLoad(TypedDict):
    """One stage of a load in stages."""

    duration_s: Annotated[float, "Length of the stage (s)."]
    rate: Annotated[float, "Arrivals per second; of a ramp at its start."]
    to_rate: NotRequired[Annotated[float, "Ramp: arrivals per second at its end. Missing: it is not a ramp."]]


class TraceLoad(TypedDict):
    """A trace of arrival times."""

    file: Annotated[str, "Name of the file."]
    sha256: Annotated[str, "Digest of the file: equal for equal traces."]
    arrivals: Annotated[int, "Arrivals in the trace."]
    samples: Annotated[bool, "Whether the trace names the sample of each arrival."]
    first: NotRequired[Annotated[str | None, "When the first arrival came (ISO 8601). Null: times count from 0."]]
    speed: NotRequired[Annotated[float, "How many times as fast as recorded it was played."]]


class WarmUp(TypedDict):
    """End of a warm-up that ends by itself."""

    method: Annotated[str, "Rule that finds the end of the initial transient: `MSER` (White 1997)."]
    longest_s: Annotated[float, "Its bound (s)."]
    steady: Annotated[bool | None, "Whether the latency was steady when it ended. Null: too few answers to tell."]
    steady_from_s: Annotated[float | None, "After how many seconds the latency was steady."]
    reason: NotRequired[Annotated[str, "Why it went on to its bound."]]


Mode = Literal["closed", "open", "stages", "trace", "mix", "max-rate"]


class Scenario(TypedDict):
    """The load. What a scenario does not have is null without a reason."""

    mode: Annotated[Mode, "Closed loop, or a kind of open loop."]
    distribution: Annotated[str | None, "Distribution of the gaps between arrivals: poisson, constant or gamma."]
    gamma_cv: Annotated[float | None, "Standard deviation of gamma gaps over their mean."]
    requested_rate: Annotated[float | None, "Arrivals per second that were asked for."]
    concurrency: Annotated[int | None, "Requests that a closed loop keeps in flight."]
    duration_s: Annotated[float, "Measured seconds that were asked for."]
    measured_s: Annotated[float | None, "Measured seconds. A closed loop goes on until each connection has an answer."]
    warmup_s: Annotated[
        float | None, "Seconds before the measured interval. Null where a run was cut short in a warm-up of `auto`."
    ]
    warmup: NotRequired[Annotated[WarmUp, "How a warm-up of `auto` ended."]]
    stages: Annotated[list[StageLoad] | None, "The stages of a load in stages."]
    trace: Annotated[TraceLoad | None, "The trace that was replayed."]


class Tls(TypedDict):
    """Security of the connection."""

    ca: Annotated[str, "File of the trusted CA, or `system`."]
    client_certificate: Annotated[bool, "Whether the client has a certificate of its own."]
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

    url: Annotated[str | None, "Server. Null in-process."]
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
    mix: NotRequired[Annotated[dict[str, float], "Mix: workload -> its share of the arrivals."]]


class Constraint(TypedDict):
    """One condition of the verdict."""

    name: Annotated[str, "Name. In a mix the workload's name stands before it."]
    ok: Annotated[bool, "Whether it holds."]
    value: Annotated[float | None, "What was seen. Null where the condition has no figure."]
    limit: Annotated[float | None, "What it is compared with."]
    unit: Annotated[str, "Unit of value and limit."]
    remedy: Annotated[str, "What to do where it does not hold."]


ObjectiveStatus = Literal["met", "missed", "undecided"]


class Shown(TypedDict):
    """Confidence in an objective."""

    confidence: Annotated[float, "Confidence."]
    requests: Annotated[int, "Requests that were judged."]
    over: Annotated[int, "Requests over the limit. A failed one is."]
    holds: Annotated[bool | None, "True if the objective is kept with this confidence. Null: too little was measured."]
    holds_reason: NotRequired[Annotated[str, "Reason why that is not known."]]
    measure_times: NotRequired[Annotated[float, "Number of times as long that a run has to measure for it."]]


class JudgedObjective(TypedDict):
    """One objective, and whether the run met it."""

    objective: Annotated[str, "As `--slo` writes it. In a mix the workload's name stands before it."]
    figure: Annotated[Literal["latency", "service_time", "errors", "throughput"], "What it is about."]
    percentile: Annotated[float | None, "Percentile of a latency or service time."]
    status: Annotated[ObjectiveStatus, "`undecided`: too few requests to tell."]
    value: Annotated[float | None, "What was seen."]
    limit: Annotated[float, "Limit: the least throughput, the most of all else."]
    unit: Annotated[str, "Unit of value and limit: ms, share or requests/s."]
    remedy: Annotated[str, "What to do where it is not met."]
    shown: Annotated[Shown | None, "A percentile: whether the run shows it with confidence."]


class VerdictOfRun(TypedDict):
    """Verdict of a run: its validity, and whether it met its objectives."""

    valid: Annotated[bool, "Whether every constraint holds. A missed objective is a result like any other."]
    objective: Annotated[
        ObjectiveStatus | None, "Of all objectives: missed where one is, met where all are. Null: there is none."
    ]
    exit_code: Annotated[int, "0 valid and met, 2 invalid or undecided, 4 valid and missed."]
    constraints: Annotated[list[Constraint], "The constraints in order."]
    objectives: Annotated[list[JudgedObjective], "The objectives in order."]
    skipped: Annotated[dict[str, str], "Constraints that do not apply: name -> reason."]


class LimitedBy(TypedDict):
    """Bottleneck of the run."""

    by: Annotated[Literal["server", "generator", "network"] | None, "What limited it. Null: nothing, or not known."]
    evidence: Annotated[str, "From which figures this follows."]


class ScheduleDelay(Latency):
    """Delay of the generator's sends (ms). A closed loop has no schedule."""

    late_share: Annotated[float | None, "Share of requests sent more than 1 ms late."]


class TailBounds(TypedDict):
    """Bounds of the run's tail with confidence, from how much its windows differ."""

    confidence: Annotated[float, "Confidence of the bounds."]
    requests: Annotated[int, "Requests that were judged, failed ones among them."]
    bounds_ms: Annotated[Percentiles, "What each percentile does not exceed with this confidence (ms)."]


class Throughput(TypedDict):
    """Rates of the measured interval, per second."""

    requests_per_s: Annotated[float | None, "Good answers that came in the interval."]
    inferences_per_s: Annotated[float | None, "The same in samples."]
    achieved_rate: Annotated[float | None, "Open loop: the same as requests_per_s."]
    goodput: Annotated[
        float | None,
        "Requests that were answered within the limit of the latency objective with the highest percentile. Without "
        "one: all that were answered.",
    ]
    scheduled_rate: Annotated[float | None, "Open loop: arrivals that the seed drew."]


class Errors(TypedDict):
    """Failed requests of the measured interval."""

    count: Annotated[int, "Failed requests."]
    share: Annotated[float | None, "Share of the requests that failed."]
    by_kind: Annotated[dict[str, int], "Kind of failure -> count."]
    messages: Annotated[dict[str, list[str]], "Kind of failure -> the server's first messages."]


class Tolerance(TypedDict):
    """The limits that decided whether the outputs agree."""

    atol: NotRequired[Annotated[float, "fp32: an element may lie so far from the golden one, and `rtol` more."]]
    rtol: NotRequired[Annotated[float, "fp32: the same as a share of the golden element's size."]]
    min_cosine: NotRequired[Annotated[float, "Reduced precision: the smallest cosine of a sample."]]
    min_match: NotRequired[Annotated[float, "Whole numbers: the share that must be equal."]]


class OutputAgreement(TypedDict):
    """Agreement of the answers to golden requests with eager PyTorch in fp32. The worst answer of a sample counts."""

    checked: Annotated[int | None, "Answers that were compared."]
    samples: NotRequired[Annotated[int | None, "Golden samples among them. Each counts once in what follows."]]
    top1_samples: NotRequired[Annotated[int | None, "Samples with the same first choice."]]
    max_abs_error: Annotated[float | None, "Largest absolute error of a floating-point output."]
    max_rel_error: Annotated[float | None, "Largest relative error of a floating-point output."]
    cosine_min: Annotated[float | None, "Smallest cosine of an output with the golden one."]
    top1_agreement: Annotated[float | None, "top1_samples / samples."]
    tolerance: NotRequired[Annotated[Tolerance | None, "What was asked for."]]
    weights: NotRequired[
        Annotated[
            Literal["random", "trained", "own"] | None, "Random ones have no accuracy; `own`: of the user's file."
        ]
    ]


class Quality(TypedDict):
    """The task's quality metric, which a load run measures with `--quality`."""

    metric: Annotated[str | None, "Name of the metric."]
    value: Annotated[float | None, "Its value."]
    target: Annotated[float | None, "Target of the suite."]
    dataset: Annotated[str | None, "Data set of the workload."]
    score: NotRequired[Annotated[QualityScore, "With `--quality`: of the first answer to each example."]]


class Correctness(TypedDict):
    """Quality of the answers, as far as it is known."""

    output_agreement: Annotated[OutputAgreement, "Agreement with eager PyTorch."]
    quality: Annotated[Quality, "The task's quality metric."]


class EnergyFigures(TypedDict):
    """Energy of the measured interval."""

    joules_per_inference: Annotated[float | None, "Energy of one sample (J)."]
    joules_per_inference_ci95: NotRequired[
        Annotated[list[float] | None, "Its 95 % interval, from the run's windows. Null: too few that the meter tells."]
    ]
    joules_per_request: NotRequired[Annotated[float | None, "Energy of one request (J)."]]
    average_w: Annotated[float | None, "Mean power (W)."]
    idle_w: Annotated[float | None, "Mean power before the load (W)."]
    joules: Annotated[float | None, "Energy of the interval (J)."]
    source: Annotated[str | None, "What was read: nvml_total_energy, nvml_power, amdsmi, rapl or power_command."]
    boundary: Annotated[str | None, "What was metered: gpu_board, cpu_package, or as --power-boundary says."]
    window_s: Annotated[float | None, "How long the meter ran (s)."]
    samples: Annotated[int | None, "Readings of the meter."]
    garbage_lines: NotRequired[Annotated[int, "Lines of the power command that were no figure in watts."]]


class ModelFigures(TypedDict):
    """Triton's statistics of one model in the measured interval. Times are means of a request (ms)."""

    queue_ms: Annotated[float | None, "Waiting for an instance."]
    compute_input_ms: Annotated[float | None, "Preparing the inputs."]
    compute_infer_ms: Annotated[float | None, "Running the model."]
    compute_output_ms: Annotated[float | None, "Preparing the outputs."]
    batch_size_mean: Annotated[float | None, "Mean size of the executed batches (samples)."]
    batch_sizes: Annotated[dict[str, int] | None, "Size of an executed batch -> count."]


class ComposingFigures(ModelFigures):
    """One model of a pipeline. Times are means of a request to it (ms)."""

    calls: Annotated[float | None, "Requests to it for each request of the pipeline."]


class ServerFigures(ModelFigures):
    """Triton's statistics of the measured interval. Times are means of a request (ms)."""

    composing: NotRequired[Annotated[dict[str, ComposingFigures], "A pipeline's models, each with its own figures."]]


class CpuLatencyFigures(TypedDict):
    """Idle states that the generator's machine was asked to avoid."""

    cpu_latency_us: NotRequired[
        Annotated[
            int | None,
            "Within which idle cores of the generator's machine had to wake up while it sent (us; CPU latency QoS). "
            "Null: nothing was asked. Absent: several processes, each of which asked by itself.",
        ]
    ]


class Client(PriorityFigures, CpuLatencyFigures):
    """The load generator itself."""

    cpu_utilization: Annotated[float | None, "Share of one core that it used. Of several processes the busiest."]
    max_in_flight: Annotated[int, "Most requests that were in flight."]
    waited_share: Annotated[float | None, "Share of requests that waited for --max-in-flight."]
    generator_delay_p99_ms: Annotated[float | None, "Schedule delay of those that did not wait, at p99 (ms)."]
    sampling_cpu_utilization: NotRequired[
        Annotated[float | None, "Share of one core that reading the meters for `series.json` took."]
    ]
    workers: Annotated[int, "Processes that sent the load."]
    requests_outside_interval: Annotated[int, "Requests of the warm-up, after the interval, and first ones alone."]


class CpuFigures(TypedDict):
    """Use of this machine's cores in the measured interval: mean numbers of cores. Interrupts are left out."""

    cores: Annotated[float | None, "Cores that may be used, by affinity and quota."]
    generator_cores: Annotated[float | None, "Used by the generator, and by the command that started it."]
    server_cores: Annotated[float | None, "Used by the server. 0: it runs on another machine, or in the generator."]
    other_cores: Annotated[float | None, "Used by other work."]
    stolen_cores: Annotated[float | None, "Taken by other virtual machines (steal)."]
    other_cpu_share: Annotated[float | None, "Share of the cores that other work and other virtual machines took."]
    largest_other: NotRequired[Annotated[str, "Processes of the other work that used most, with their cores."]]


class SequenceFigures(TypedDict):
    """Sequences of requests to a stateful model."""

    length: Annotated[int, "Requests of each sequence."]
    in_flight: Annotated[int, "Most sequences in flight."]
    completed: Annotated[int, "Sequences whose last answer came in the interval."]
    broken: Annotated[int, "Sequences begun in the interval of which a request failed."]
    sequences_per_s: Annotated[float | None, "Completed sequences per second."]
    duration_ms: Annotated[Latency, "From the schedule of the first request to the last answer (ms)."]


class AnswerFigures(TypedDict):
    """Several answers to each request, of a decoupled model."""

    per_request: Annotated[float | None, "Mean number of answers to a request."]
    answers_per_s: Annotated[float | None, "Answers that came in the interval, per second."]
    first_ms: Annotated[Latency, "From the schedule to the first answer (ms)."]
    between_ms: Annotated[Latency, "From one answer to the next of the same request (ms)."]


class Metrics(TypedDict):
    """Everything that was measured."""

    latency_ms: Annotated[Latency, "From the schedule to the answer (ms), of all requests: failed ones last longest."]
    answered_latency_ms: Annotated[Percentiles, "The same percentiles of the answered requests alone (ms)."]
    service_time_ms: Annotated[Latency, "From the sending to the answer (ms)."]
    schedule_delay_ms: Annotated[ScheduleDelay, "From the schedule to the sending (ms)."]
    tail_bounds: Annotated[TailBounds, "What the run shows of its tail."]
    throughput: Annotated[Throughput, "Rates."]
    errors: Annotated[Errors, "Failed requests."]
    correctness: Annotated[Correctness, "Agreement of answers with golden ones, and their quality."]
    energy: Annotated[EnergyFigures, "Energy."]
    server: Annotated[ServerFigures, "The server's own statistics."]
    client: Annotated[Client, "The load generator."]
    cpu: NotRequired[Annotated[CpuFigures, "Who used this machine's cores."]]
    sequences: NotRequired[Annotated[SequenceFigures | None, "Sequences. Null: requests are independent."]]
    answers: NotRequired[Annotated[AnswerFigures | None, "Several answers to a request. Null: each has one."]]


class ServerWindow(TypedDict):
    """Triton's statistics of one window."""

    queue_ms: Annotated[float | None, "Waiting for an instance, mean of a request (ms)."]
    compute_infer_ms: Annotated[float | None, "Running the model, mean of a request (ms)."]
    batch_size_mean: Annotated[float | None, "Mean size of the executed batches (samples)."]


class WindowFigures(TypedDict):
    """One window of the measured interval."""

    start_s: Annotated[float, "Start, from the start of the interval (s)."]
    requests_per_s: Annotated[float, "Good answers that came in it, per second."]
    count: NotRequired[Annotated[int, "Good requests that were scheduled in it."]]
    errors: Annotated[int, "Failed requests that were scheduled in it."]
    p50_ms: Annotated[float | None, "Median latency (ms)."]
    p90_ms: NotRequired[Annotated[float | None, "90th percentile of the latency (ms)."]]
    p95_ms: NotRequired[Annotated[float | None, "95th percentile of the latency (ms)."]]
    p99_ms: Annotated[float | None, "99th percentile of the latency (ms)."]
    max_ms: NotRequired[Annotated[float | None, "Longest latency (ms)."]]
    over_slo: NotRequired[Annotated[int | None, "Requests over the latency objective. A failed one is."]]
    server: NotRequired[
        Annotated[
            ServerWindow | None, "The server in this window. Of a trace and of stages only: elsewhere it is absent."
        ]
    ]


class StageFigures(TypedDict):
    """One stage of a load in stages."""

    start_s: Annotated[float, "Start, from the start of the interval (s)."]
    duration_s: Annotated[float, "Length that was asked for (s)."]
    requested_rate: Annotated[float, "Arrivals per second that were asked for, the mean of a ramp."]
    scheduled: Annotated[int, "Requests that were scheduled in it."]
    errors: Annotated[int, "Failed requests that were scheduled in it."]
    requests_per_s: Annotated[float, "Good answers that came in it, per second."]
    latency_ms: Annotated[Latency, "Latency of the requests that were scheduled in it (ms)."]


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
    clock_uncertainty_ms: Annotated[float, "Largest error of its clock (ms)."]
    trouble: Annotated[str | None, "Why its share is not what was asked for. Null where it is."]


class Telemetry(TypedDict):
    """A place to which the run's metrics were sent."""

    to: Annotated[Literal["push_gateway", "otlp"], "What takes them."]
    url: Annotated[str, "Where it is."]
    sent: Annotated[int, "How often they were taken."]
    failed: Annotated[int, "How often they were not."]
    error: Annotated[str | None, "Why the last of these failed. Null: none did."]


class MixPart(TypedDict):
    """One workload of a mix."""

    workload: Annotated[str, "Name of the workload."]
    share: Annotated[float, "Its share of the arrivals."]
    directory: Annotated[str, "Directory with its whole result, beside this file."]
    batch_size: Annotated[int, "Samples in a request."]
    verdict: Annotated[VerdictOfRun, "Its own verdict."]
    bottleneck: Annotated[LimitedBy, "What limited it."]
    metrics: Annotated[Metrics, "Its own figures. The energy is known of the whole mix only."]


RateLimit = Literal["server", "generator", "other work", "unsteady", "range", "broken", "runs", "interrupted"]


class RatePoint(TypedDict):
    """One run of a search for the highest rate."""

    rate: Annotated[float, "Arrivals per second."]
    valid: Annotated[bool, "Whether every constraint holds."]
    objective: Annotated[ObjectiveStatus, "Whether the objectives were met."]
    met: Annotated[bool, "Whether the rate was met: the objectives are, and nothing but other work disturbed the run."]
    bottleneck: Annotated[RateLimit | None, "What kept the rate from being met."]
    failed: Annotated[list[str], "Constraints that do not hold."]
    latency_ms: Annotated[float | None, "Latency at the objectives' highest percentile (ms)."]
    over: Annotated[int | None, "Requests over the latency's objective that is nearest to be missed."]
    requests: Annotated[int, "Requests that were judged by it."]
    directory: Annotated[str | None, "Directory of the run."]


class TriedRate(TypedDict):
    """A rate that a search tried."""

    rate: Annotated[float, "Arrivals per second."]
    runs: Annotated[int, "Runs at this rate."]
    met: Annotated[int, "How many of them met it."]


class MaxRateSearch(TypedDict):
    """A search for the highest rate that meets the objectives."""

    rate: Annotated[float | None, "The rate found (requests/s). A lower bound unless `bottleneck` is `server`."]
    ci95: Annotated[list[float | None] | None, "95 % interval of the rate. Its end is null for a lower bound."]
    confirmed: Annotated[bool, "Whether it is the server's, and known to 5 % at least."]
    above: Annotated[float | None, "Lowest rate beyond it that was not met (requests/s)."]
    bottleneck: Annotated[
        RateLimit,
        "What bounds the rate. `range`: the highest rate asked for. `broken`: no other rate would do. `runs`: they "
        "were used up before any was met, or missed.",
    ]
    reason: Annotated[str, "The same in words."]
    rates: Annotated[list[TriedRate], "The rates that were tried, ascending."]
    points: Annotated[list[RatePoint], "The runs in the order in which they were made."]


class RunHeader(Header):
    """Part of a result that is known before a run, and the parts that only some runs have."""

    kind: Annotated[Literal["load"], KIND]
    request: Annotated[dict[str, Any], REQUEST]
    resolved: Annotated[Resolved, "What the request left open, as it was resolved."]
    seed: Annotated[int, "Seed of schedule and inputs."]
    workload: Annotated[str, "Name of the workload, or `mix`."]
    task: Annotated[str, "Task of the workload."]
    suites: Annotated[list[str], "Suites that have the workload."]
    engine: Annotated[str | None, "Engine that ran, as the server reports it."]
    device: Annotated[str | None, "Device that ran: cpu or cuda:N."]
    provider: Annotated[str | None, "What of the engine ran, like an execution provider."]
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
    protocol: Annotated[str, "`http`, `grpc` or `in-process`."]
    shared_memory: Annotated[str, "Where tensors lie: `none`, `system` or `cuda`."]
    scenario: Annotated[Scenario, "The load."]
    workers: NotRequired[Annotated[list[Worker], "The processes that sent the load, where there were several."]]
    telemetry: NotRequired[
        Annotated[list[Telemetry], "--push-gateway and such: where the metrics of the run went. They change no figure."]
    ]
    mix: NotRequired[Annotated[list[MixPart], "Mix: each workload's own figures."]]
    max_rate: NotRequired[Annotated[MaxRateSearch, "--max-rate: the search. The rest is the run that stands for it."]]


class PendingResult(RunHeader):
    """A run that has not measured anything yet."""

    verdict: Annotated[None, "Not known yet."]
    bottleneck: Annotated[None, "Not known yet."]
    metrics: Annotated[None, "Not known yet."]
    windows: Annotated[list[WindowFigures], "None yet."]
    stages: Annotated[list[StageFigures], "None yet."]
    partial: Annotated[bool, "true"]


class Result(RunHeader):
    """The result of a run."""

    verdict: Annotated[VerdictOfRun, "Whether the run may be quoted, and whether it met its objectives."]
    bottleneck: Annotated[LimitedBy, "What limited the run."]
    metrics: Annotated[Metrics, "Everything that was measured."]
    windows: Annotated[
        list[WindowFigures],
        "Windows of the measured interval, in order: of 1 s for a trace of an hour at most, else at most 10.",
    ]
    stages: Annotated[list[StageFigures], "Stages of a load in stages, in order."]
    partial: Annotated[bool, "true: the run was cut short. The figures are of what was measured until then."]


class CurvePoint(TypedDict):
    """One rate of a throughput-latency curve. Of repeats the median."""

    rate: Annotated[float, "Arrivals per second that were asked for."]
    runs: Annotated[int, "Runs at this rate."]
    requests_per_s: Annotated[float, "Good answers per second."]
    completed_share: Annotated[float, "Share of the scheduled requests that were completed."]
    mean_ms: Annotated[float | None, "Mean latency (ms)."]
    p50_ms: Annotated[float | None, "Median latency (ms)."]
    p90_ms: Annotated[float | None, "90th percentile of the latency (ms)."]
    p99_ms: Annotated[float | None, "99th percentile of the latency (ms)."]
    valid: Annotated[bool, "Whether every run is valid."]
    objective: Annotated[ObjectiveStatus | None, "The worst of its runs'. Null: there is no objective."]


class Curve(TypedDict):
    """The throughput-latency curve of a range of rates."""

    definition: Annotated[str, "What the knee is."]
    points: Annotated[list[CurvePoint], "The rates, ascending."]
    knee: Annotated[float | None, "Rate of the knee (requests/s)."]
    knee_reason: Annotated[str, "Why the knee is there, or why there is none."]


class Series(TypedDict):
    """Document that `servemark run --json` prints for a range or --repeat."""

    results: Annotated[list[Result], "The runs in order."]
    curve: NotRequired[Annotated[Curve, "The curve of a range of rates."]]
