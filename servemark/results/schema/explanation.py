"""Explanation of a run's latency, in its result: `servemark explain`, `servemark run --explain`."""

from typing import Annotated, Any, NotRequired, TypedDict


class ExplainedPart(TypedDict):
    """A cause, with its part of the latency of the median and of the slowest 1 %."""

    cause: Annotated[str, "Its name, like `instance`. `unexplained` is what no other cause explains."]
    words: Annotated[str, "The same in words."]
    median_ms: Annotated[float, "Its part of the mean latency of the requests around the median (ms)."]
    tail_ms: Annotated[float, "Its part of the mean latency of the slowest 1 % (ms)."]
    excess_ms: Annotated[float, "The difference of both (ms). All of them add up to `excess_ms` of the explanation."]
    share: Annotated[float, "Its share of the whole excess. It is below 0 where the slowest have less of it."]


class Fix(TypedDict):
    """A change that would make the tail shorter."""

    words: Annotated[str, "The change."]
    settings: Annotated[dict[str, Any], "Settings of the model that make it, for --try. Empty: it is none of these."]
    p50_ms: Annotated[float | None, "Median latency that is predicted (ms). Null: nothing measured here tells it."]
    p99_ms: Annotated[float | None, "p99 that is predicted (ms). Null: nothing measured here tells it."]
    basis: Annotated[str, "Basis of the prediction, or why there is none."]


class Pauses(TypedDict):
    """Times in which the server had work and its CPU time stood still."""

    count: Annotated[int, "Number of them."]
    median_ms: Annotated[float | None, "Median length (ms). Null: there are none."]
    period_s: Annotated[float | None, "Median time from one to the next (s). Null: fewer than two."]


class Queueing(TypedDict):
    """The queue held against a replay of its arrivals."""

    instances: Annotated[int, "Instances of the model."]
    max_batch: Annotated[int, "Largest number of requests in a batch. 1: no dynamic batching."]
    queue_delay_ms: Annotated[float, "Configured queue delay (ms)."]
    utilization: Annotated[float, "Share of the instances' time in which they executed batches."]
    batch_mean: Annotated[float, "Mean number of requests in a batch."]
    execution_ms: NotRequired[Annotated[float, "Mean time in which a batch is executed (ms)."]]
    size_change_ms: NotRequired[
        Annotated[
            float | None,
            "How much longer a batch takes whose size is another than the one before (ms). Null: several instances, or "
            "too few such batches.",
        ]
    ]
    wait_p99_ms: Annotated[float, "p99 of the measured wait in the queue (ms)."]
    replayed_wait_p99_ms: Annotated[float, "The same of the replay, with the service times as measured (ms)."]
    undisturbed_wait_p99_ms: Annotated[
        float, "The same with the usual service time of each batch size: what the load alone explains (ms)."
    ]


class Tried(TypedDict):
    """The fix, measured against the present in interleaved rounds (--try)."""

    rounds: Annotated[int, "Rounds, each with one run of both."]
    percentile: NotRequired[
        Annotated[str, "The highest percentile that all runs have, which is compared. Absent in old documents: `p99`."]
    ]
    now_p99_ms: Annotated[list[float], "That percentile of each round as it is now (ms)."]
    fixed_p99_ms: Annotated[list[float], "That percentile of each round with the fix (ms)."]
    ratio: Annotated[float, "With the fix / now: the geometric mean over rounds."]
    ratio_ci95: Annotated[list[float] | None, "95 % interval of that. Null: fewer than 5 rounds."]
    predicted_ratio: Annotated[float | None, "The ratio that was predicted."]


class ServerSteps(TypedDict):
    """Mean time of a request in the server, by its own statistics."""

    queue_ms: Annotated[float, "Waiting in the queue (ms)."]
    input_ms: Annotated[float, "Preparing the inputs (ms)."]
    infer_ms: Annotated[float, "Executing the batch (ms)."]
    output_ms: Annotated[float, "Preparing the outputs (ms)."]


class LadderRung(TypedDict):
    """One rung of the ladder: all that the rung below has, and one thing more."""

    rung: Annotated[str, "Its name, like `served`."]
    words: Annotated[str, "What is measured there."]
    ms: Annotated[list[float], "Latency in each round: a median, but for `p99` (ms)."]
    mean_ms: Annotated[float, "Mean of the rounds (ms)."]
    step_ms: Annotated[float, "Mean difference to the rung below (ms); to 0 of the lowest. All of them add up to p99."]
    step_ci95_ms: Annotated[list[float] | None, "95 % interval of that. Null: fewer than 5 rounds."]
    server: Annotated[ServerSteps | None, "The server's own steps there. Null: there is no server, or it tells none."]


class LeftOut(TypedDict):
    """A measurement that could not be made."""

    rung: Annotated[str, "The rung."]
    reason: Annotated[str, "Why it could not be measured."]


class Ladder(TypedDict):
    """The latency from the engine's operators to p99 under load, in interleaved rounds (--ladder)."""

    rounds: Annotated[int, "Rounds, each with one measurement of all rungs."]
    rungs: Annotated[list[LadderRung], "From the lowest to the highest."]
    left_out: Annotated[list[LeftOut], "Rungs that could not be measured."]


class Explanation(TypedDict):
    """Time of a run's slowest requests, by cause."""

    sentence: Annotated[str, "The answer."]
    cause: Annotated[str | None, "The cause that it names. Null: none stands out."]
    traced: Annotated[bool, "Whether the server's own timestamps were there."]
    note: Annotated[str, "What could not be told, and why. Empty: nothing is missing."]
    requests: Annotated[int, "Answered requests of the measured interval with stamps on both sides."]
    slowest: Annotated[int, "Number of the slowest ones."]
    p50_ms: Annotated[float, "Median latency of these requests (ms)."]
    p99_ms: Annotated[float, "p99 of them (ms)."]
    excess_ms: Annotated[float, "Mean latency of the slowest less that of the requests around the median (ms)."]
    parts: Annotated[list[ExplainedPart], "Causes in the order of a request's way."]
    queueing: Annotated[Queueing | None, "The queue. Null: no trace."]
    pauses: Annotated[Pauses | None, "The pauses of the server. Null: its processes could not be watched."]
    fixes: Annotated[list[Fix], "Changes for the named cause, the best first. Empty: there is none."]
    tried: Annotated[Tried | None, "The first fix, as it was measured. Null: without --try."]
    ladder: NotRequired[Annotated[Ladder, "From the operators to p99. With --ladder."]]
