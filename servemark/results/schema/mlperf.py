"""The result of `servemark mlperf`: MLCommons' LoadGen drives, and both verdicts count."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from servemark.figures.value import FigureValue
from servemark.results.schema.details import CpuDetails, ErrorDetails, OutputDetails, QualityScore
from servemark.results.schema.header import KIND
from servemark.results.schema.run import OneRun, Resolved
from servemark.results.schema.verdict import VerdictOfRun


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
