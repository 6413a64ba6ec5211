"""The result of `servemark mlperf`: MLCommons' LoadGen drives, and both verdicts count."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from servemark.results.schema.header import KIND, Header
from servemark.results.schema.metrics import CpuFigures, OutputAgreement
from servemark.results.schema.run import REQUEST, Resolved
from servemark.results.schema.score import QualityScore
from servemark.results.schema.verdict import VerdictOfRun
from servemark.stats.histogram import Latency


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
    bound_from: NotRequired[Annotated[str | None, "Origin of the bound: `--slo`, or the workload's own objective."]]
    seed: Annotated[int, "Seed of schedule and samples."]
    accuracy: NotRequired[
        Annotated[bool, "Whether it was an accuracy run: each sample once; no duration and no latency counts."]
    ]


class MlperfErrors(TypedDict):
    """Failed requests. LoadGen knows none, so that each makes the run invalid."""

    count: Annotated[int, "Failed requests."]
    by_kind: Annotated[dict[str, int], "Kind of failure -> count."]
    messages: Annotated[dict[str, str], "Kind of failure -> the server's first message."]


class MlperfCorrectness(TypedDict):
    """Quality of the answers, as far as it is known."""

    output_agreement: Annotated[OutputAgreement, "Agreement with eager PyTorch."]
    quality: NotRequired[Annotated[QualityScore, "Of an accuracy run: its log, scored."]]


class MlperfMetrics(TypedDict):
    """Figures that this side measured."""

    latency_ms: Annotated[Latency, "From LoadGen's call to the answer (ms)."]
    errors: Annotated[MlperfErrors, "Failed requests."]
    correctness: Annotated[MlperfCorrectness, "Agreement of answers with golden ones, and their quality."]
    cpu: Annotated[CpuFigures, "Cores that generator, server and other work used."]


class MlperfResult(Header):
    """The result of an MLPerf scenario."""

    kind: Annotated[Literal["mlperf"], KIND]
    request: Annotated[dict[str, Any], REQUEST]
    resolved: Annotated[Resolved, "What the request left open, as it was resolved."]
    scenario: Annotated[str, "MLPerf's scenario."]
    plan: Annotated[Plan, "What LoadGen is asked for."]
    workload: Annotated[str, "Name of the workload."]
    engine: Annotated[str | None, "Engine that ran, as the server reports it."]
    device: Annotated[str | None, "Device that ran: cpu or cuda:N."]
    provider: Annotated[str | None, "What of the engine ran, like an execution provider."]
    precision: Annotated[str, "Precision that was asked for."]
    protocol: Annotated[str, "`http` or `grpc`."]
    loadgen: Annotated[
        dict[str, Any],
        "LoadGen's own figures by its own names: `validity`, `version`, `early_stopping`, and those of its log.",
    ]
    metrics: Annotated[MlperfMetrics, "What this side measured."]
    verdict: Annotated[VerdictOfRun, "LoadGen's verdict and this side's."]
    partial: Annotated[bool, "true: the run was cut short."]
