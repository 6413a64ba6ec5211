"""Parts of a run's result beside its figures: details and scores, windows, stages, transients, and the verdict."""

from typing import Annotated, Literal, NotRequired, TypedDict

from servemark.figures.value import FigureValue
from servemark.machine.scheduling import PriorityFigures

QualityOutcome = Literal["met", "missed", "not judged"]


class QualityFigure(TypedDict):
    """One figure of a metric."""

    name: Annotated[str, "Name of the figure."]
    value: Annotated[float | None, "The figure. Null: these examples do not tell it."]
    ci95: Annotated[
        list[float] | None, "95 % interval. Null: fewer than 5 examples, or examples all alike, which tell no spread."
    ]
    ci95_method: Annotated[
        Literal["wilson", "bootstrap"] | None,
        "`wilson` where the figure is a share: each example scores 0 or 1. `bootstrap` over the examples otherwise.",
    ]


class QualityData(TypedDict):
    """The labelled data set."""

    source: Annotated[str, "Key of the data set, or the path that was given."]
    size: Annotated[int, "Examples in the data set."]
    samples: Annotated[int, "Examples that were to be scored: all, or a subset."]
    subset_seed: Annotated[int | None, "Seed of the random subset. Null: all examples."]
    scored: Annotated[int, "Examples that were scored, failed ones included."]
    continued: Annotated[int, "Examples of these that an earlier, interrupted run had scored."]
    sha256: Annotated[str, "Digest of the scored examples: inputs, labels and numbers. Equal for equal data."]


class QualityScore(TypedDict):
    """Score of the answers, compared with the published target."""

    metric: Annotated[str, "The metric, as the workload names it."]
    higher_is_better: Annotated[bool, "Which way is good."]
    figures: Annotated[list[QualityFigure], "The metric, and what is told beside it."]
    target: Annotated[float | None, "The suite's target. Null: none is published."]
    protocol: Annotated[str, "What the target is of."]
    outcome: Annotated[QualityOutcome, "The value against the target; judged of trained weights alone."]
    reason: NotRequired[Annotated[str, "Why it is not judged."]]
    weights: Annotated[str, "`trained`, `random`, or `unknown` of a server whose model is not in the repository."]
    wrong: Annotated[int, "Examples made wrong by a failed request, or an answer that is NaN or cannot be decoded."]
    left_out: Annotated[int, "Failed examples of a metric that has no worst value; they are not in the figures."]
    not_numbers: NotRequired[
        Annotated[
            int, "Examples whose answer held NaN or told an infinite figure; `wrong` or `left_out` counts them too."
        ]
    ]
    data: Annotated[QualityData, "The labelled data set."]


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


class OutputDetails(TypedDict):
    """The comparison of the answers to golden requests with eager PyTorch in fp32."""

    tolerance: NotRequired[Annotated[Tolerance | None, "What was asked for."]]
    weights: NotRequired[
        Annotated[
            Literal["random", "trained", "own"] | None, "Random ones have no accuracy; `own`: of the user's file."
        ]
    ]


class OutputAgreement(OutputDetails):
    """Agreement of the answers to golden requests with eager PyTorch in fp32.

    The worst answer of a sample counts, and in a comparison the worst round.
    """

    checked: Annotated[int, "Answers that were compared."]
    reason: NotRequired[Annotated[str, "Why nothing was compared."]]
    samples: NotRequired[Annotated[int | None, "Golden samples of the round that checked the most of them."]]
    top1_samples: NotRequired[Annotated[int | None, "Of these, samples with the same first choice."]]
    max_abs_error: NotRequired[Annotated[float | None, "Largest absolute error."]]
    max_rel_error: NotRequired[Annotated[float | None, "Largest relative error."]]
    cosine_min: NotRequired[Annotated[float | None, "Smallest cosine."]]
    spread_error_max: NotRequired[Annotated[float | None, "Longest error, as a share of the golden samples' spread."]]
    top1_agreement: NotRequired[Annotated[float | None, "top1_samples / samples."]]


class ErrorDetails(TypedDict):
    """Failed requests of the measured interval."""

    by_kind: Annotated[dict[str, int], "Kind of failure -> count."]
    messages: Annotated[dict[str, list[str]], "Kind of failure -> the server's first messages."]


class QualityDetails(TypedDict):
    """The task's quality metric, which a load run measures with `--quality`."""

    metric: Annotated[str | None, "Name of the metric."]
    dataset: Annotated[str | None, "Data set of the workload."]
    score: NotRequired[Annotated[QualityScore, "With `--quality`: of the first answer to each example."]]


class EnergyDetails(TypedDict):
    """The meter, and what it covers."""

    source: Annotated[str | None, "What was read: nvml_total_energy, nvml_power, amdsmi, rapl or power_command."]
    boundary: Annotated[str | None, "What was metered: gpu_board, cpu_package, or as --power-boundary says."]
    garbage_lines: NotRequired[Annotated[int, "Lines of the power command that were no figure in watts."]]


class ComposingModel(TypedDict):
    """One model of a pipeline. `server.calls`: requests to it for each request of the pipeline."""

    figures: Annotated[dict[str, FigureValue], "Its own figures of the server."]
    batch_sizes: Annotated[dict[str, int], "Size of an executed batch -> count."]


class ServerDetails(TypedDict):
    """Details of Triton's statistics, beside the figures."""

    batch_sizes: Annotated[dict[str, int] | None, "Size of an executed batch -> count. Null: not known."]
    composing: NotRequired[Annotated[dict[str, ComposingModel], "A pipeline's models, each with its own figures."]]


KERNEL, PROCESS, BOTH = "kernel", "process", "both"


class ClockDetails(TypedDict):
    """The clock of the answers' times: the kernel stamps packets that come, a process sees them when it wakes."""

    receive: Annotated[
        str, "kernel, process, or both: more than 1 % of the answers were read without a stamp that holds."
    ]


class CpuDetails(TypedDict):
    """Processes that used this machine's cores."""

    server_processes: NotRequired[Annotated[str, "Processes that were counted as the server, with their cores."]]
    largest_other: NotRequired[Annotated[str, "Processes of the other work that used most, with their cores."]]


class CancellationDetails(TypedDict):
    """Requests that were to be given up."""

    failed: Annotated[dict[str, int], "Those that failed before, by kind."]


class OneOfSeveral(TypedDict):
    """One of several servers that took the requests in turn."""

    url: Annotated[str, "The server."]
    figures: Annotated[dict[str, FigureValue], "Its own latency, requests and errors."]
    errors_by_kind: Annotated[dict[str, int], "Kind of failure -> count."]


class Details(TypedDict):
    """Everything that a run found and that is not a number, by the subject of the figures that it belongs to."""

    errors: Annotated[ErrorDetails, "Failed requests."]
    outputs: Annotated[OutputDetails, "Agreement of answers with golden ones."]
    quality: Annotated[QualityDetails, "The task's quality metric."]
    energy: Annotated[EnergyDetails, "The meter."]
    server: Annotated[ServerDetails, "The server's own statistics."]
    generator: Annotated[PriorityFigures, "The load generator."]
    clock: NotRequired[Annotated[ClockDetails, "Clock of the answers' times."]]
    cpu: NotRequired[Annotated[CpuDetails, "Who used this machine's cores."]]
    cancellation: NotRequired[Annotated[CancellationDetails, "--request-cancellation."]]
    servers: NotRequired[Annotated[list[OneOfSeveral], "Each of several servers."]]


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
    figures: Annotated[
        dict[str, FigureValue],
        "Latency and errors of the requests that were scheduled in it, and the good answers that came in it.",
    ]


class Recovery(TypedDict):
    """Latency before and after a command, by seconds of the measured interval."""

    percentile: Annotated[str | None, "Percentile that is compared: the highest that each second before it has."]
    before_ms: Annotated[float | None, "Its largest value in a second before the command (ms)."]
    worst_ms: Annotated[float | None, "Its largest value until the latency had recovered (ms)."]
    errors: Annotated[int, "Failed requests that were scheduled until then."]
    recovery_s: Annotated[
        float | None,
        "Time until the first of three seconds in a row without failures and at most 1.1 times `before_ms` (s).",
    ]
    recovered: Annotated[bool | None, "Whether it had when the run ended. Null: too little is known before it."]


class StartedCommand(TypedDict):
    """A command that was started beside the load."""

    command: Annotated[str, "The command."]
    at_s: Annotated[float, "When it was started, from the start of the measured interval (s)."]
    exit_code: Annotated[int | None, "Its exit code. Null: it had not ended when the run had, and was ended."]
    said: Annotated[str, "The last of what it printed."]


class CommandRun(Recovery, StartedCommand):
    """A command that was run beside the load, and the recovery from it."""


class Settling(TypedDict):
    """Latency by whole seconds of the measured interval, until it was as in their second half."""

    percentile: Annotated[str | None, "Percentile that is compared: the highest that the second half has."]
    first_second_ms: Annotated[float | None, "It in the first second (ms)."]
    last_ms: Annotated[float | None, "Its largest value in a second of the second half (ms)."]
    steady_after_s: Annotated[
        float | None,
        "Time until the first of three seconds in a row without failures and at most 1.1 times `last_ms` (s). Null too "
        "where the latency drifts from there on.",
    ]
    steady: Annotated[bool | None, "Whether it was steady when the run ended. Null: too little is known."]


class ColdStart(Settling):
    """The start of a server, and how it answered from its first request on."""

    load_s: Annotated[float | None, "From the start of the server's process until it said that it was ready (s)."]
    waited_s: Annotated[
        float | None, "From then until the load began (s): servemark prepared it. It is in no other figure."
    ]
    first_answer_ms: Annotated[float | None, "Latency of the request that was answered first (ms)."]
    cold_start_s: Annotated[float | None, "`load_s` and `steady_after_s` together (s): what `--slo cold-start` limits."]


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
    remedy: NotRequired[Annotated[str, "What to do for it to be known."]]


class JudgedObjective(TypedDict):
    """One objective, and whether the run met it."""

    objective: Annotated[str, "As `--slo` writes it. In a mix the workload's name stands before it."]
    figure: Annotated[
        str, "Tag of the figure; `latency` or `service_time` of a percentile; or `recovery`, `cold-start`."
    ]
    percentile: Annotated[float | None, "Percentile of a latency or service time."]
    status: Annotated[ObjectiveStatus, "`undecided`: too few requests to tell."]
    value: Annotated[float | None, "What was seen."]
    limit: Annotated[float, "Limit: the least of what is better the more there is, the most of all else."]
    unit: Annotated[str, "Unit of value and limit."]
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
