"""Figures of a run: everything that was measured, and its windows and stages."""

from typing import Annotated, Literal, NotRequired, TypedDict

from servemark.machine.scheduling import PriorityFigures
from servemark.results.schema.score import QualityScore
from servemark.stats.histogram import Latency, Percentiles


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

    spread_rtol: NotRequired[
        Annotated[float, "fp32: an element's largest error, as a share of how far the golden samples lie apart in it."]
    ]
    rtol: NotRequired[Annotated[float, "fp32: what it may be beyond that, as a share of the golden element."]]
    atol: NotRequired[Annotated[float, "In results before `spread_rtol`: an absolute error in its place."]]
    min_cosine: NotRequired[Annotated[float, "Reduced precision: the smallest cosine of a sample."]]
    max_spread_error: NotRequired[
        Annotated[float, "Reduced precision: the longest error of a sample, as a share of the spread."]
    ]
    min_match: NotRequired[Annotated[float, "Whole numbers: the share that must be equal."]]


class OutputAgreement(TypedDict):
    """Agreement of the answers to golden requests with eager PyTorch in fp32. The worst answer of a sample counts."""

    checked: Annotated[int | None, "Answers that were compared."]
    samples: NotRequired[Annotated[int | None, "Golden samples among them. Each counts once in what follows."]]
    top1_samples: NotRequired[Annotated[int | None, "Samples with the same first choice."]]
    max_abs_error: Annotated[float | None, "Largest absolute error of a floating-point output."]
    max_rel_error: Annotated[float | None, "Largest relative error of a floating-point output."]
    cosine_min: Annotated[float | None, "Smallest cosine of an output with the golden one."]
    spread_error_max: NotRequired[
        Annotated[float | None, "Longest error of a sample, as a share of how far the golden samples lie apart."]
    ]
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


KERNEL, PROCESS, BOTH = "kernel", "process", "both"


class ClockFigures(TypedDict):
    """The clock of the answers' times: the kernel stamps packets that come, a process sees them when it wakes."""

    receive: Annotated[
        str, "kernel, process, or both: more than 1 % of the answers were read without a stamp that holds."
    ]
    unstamped: Annotated[int | None, "Readings to which the kernel gave no stamp."]
    refused: Annotated[int, "Stamps before the sending or after the reading: the time of the reading stands."]
    steps: Annotated[int, "Steps of the time of day, after each of which stamps are refused for 0.1 s."]
    send_error_ms: Annotated[Latency, "From the process's time of sending to the kernel's (ms), of a sample."]


class CpuFigures(TypedDict):
    """Use of this machine's cores in the measured interval: mean numbers of cores. Interrupts are left out."""

    cores: Annotated[float | None, "Cores that may be used, by affinity and quota."]
    generator_cores: Annotated[float | None, "Used by the generator, and by the command that started it."]
    server_cores: Annotated[float | None, "Used by the server. 0: it runs on another machine, or in the generator."]
    other_cores: Annotated[float | None, "Used by other work."]
    stolen_cores: Annotated[float | None, "Taken by other virtual machines (steal)."]
    other_cpu_share: Annotated[float | None, "Share of the cores that other work and other virtual machines took."]
    server_processes: NotRequired[Annotated[str, "Processes that were counted as the server, with their cores."]]
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


class OneOfSeveral(TypedDict):
    """One of several servers that took the requests in turn."""

    url: Annotated[str, "The server."]
    requests: Annotated[int, "Requests that went to it, failed ones among them."]
    errors: Annotated[int, "Those that failed."]
    errors_by_kind: Annotated[dict[str, int], "Kind of failure -> count."]
    latency_ms: Annotated[Latency, "Latency of its requests (ms)."]


class ConnectionParts(TypedDict):
    """Parts of answered requests that had a connection each (ms). They add up to the service time, but for `dns_ms`."""

    dns_ms: Annotated[float | None, "Looking up the server's name, once before the run."]
    connect_ms: Annotated[Latency, "From the beginning of the connection until it is established."]
    tls_ms: Annotated[Latency | None, "The TLS handshake."]
    first_byte_ms: Annotated[Latency, "From sending the request to the first bytes of the answer."]
    receive_ms: Annotated[Latency, "From there to the last byte."]


class CompressionFigures(TypedDict):
    """Sizes with and without compression (bytes) of the distinct requests, and of all answers that came compressed."""

    request_bytes: Annotated[float | None, "Mean size of a request's body, or message, as it was made."]
    request_sent_bytes: Annotated[float | None, "The same as it travelled."]
    compressed_answers: Annotated[int, "Answers that came compressed, those of the warm-up among them."]
    answer_received_bytes: Annotated[float | None, "Their mean size as they came."]
    answer_bytes: Annotated[float | None, "The same without compression."]


class CancellationFigures(TypedDict):
    """Requests that were marked before they were sent, to be given up. They count in no other figure."""

    requests: Annotated[int, "Marked requests that were scheduled in the interval."]
    cancelled: Annotated[int, "Those that were given up: the connection was closed (HTTP), or the stream reset (gRPC)."]
    answered: Annotated[int, "Those that were answered before."]
    failed: Annotated[dict[str, int], "Those that failed before, by kind."]
    given_up_ms: Annotated[Latency, "From sending to giving up (ms)."]


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
    clock: NotRequired[Annotated[ClockFigures, "Clock of the answers' times, and how late requests left."]]
    cpu: NotRequired[Annotated[CpuFigures, "Who used this machine's cores."]]
    sequences: NotRequired[Annotated[SequenceFigures | None, "Sequences. Null: requests are independent."]]
    answers: NotRequired[Annotated[AnswerFigures | None, "Several answers to a request. Null: each has one."]]
    connections: NotRequired[
        Annotated[ConnectionParts | None, "--no-connection-reuse: parts of the requests. Null: connections were kept."]
    ]
    compression: NotRequired[
        Annotated[CompressionFigures | None, "--request-compression, --response-compression. Null: none was asked for."]
    ]
    cancellation: NotRequired[
        Annotated[CancellationFigures | None, "--request-cancellation. Null: no request was to be given up."]
    ]
    servers: NotRequired[Annotated[list[OneOfSeveral] | None, "Each of several servers. Null: one took all requests."]]


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
