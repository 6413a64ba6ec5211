"""The document of a suite, `suite.json`."""

from typing import Annotated, Literal, TypedDict, cast

from servemark.results.schema.header import KIND, CampaignHeader


class SuiteRow(TypedDict):
    """One workload. What was not reached is null, and `failure` says why."""

    workload: Annotated[str, "Name of the workload."]
    precision: Annotated[str, "What it computes in."]
    batch_size: Annotated[int, "Samples in a request."]
    parameters: Annotated[int | None, "Parameters of the model. Null: not known."]
    gflops: Annotated[float | None, "Operations of one mean sample, its padding included (GFLOP). Null: not known."]
    export_s: Annotated[float | None, "Time of the export (s)."]
    export_up_to_date: Annotated[bool, "Whether the export was there already."]
    peak_rss_mib: Annotated[int | None, "Most memory of the export (MiB)."]
    busy_share: Annotated[float | None, "Share of all cores that other work used before the load."]
    measured_s: Annotated[float | None, "Measured seconds."]
    requests: Annotated[int | None, "Answered requests."]
    mean_ms: Annotated[float | None, "Mean latency (ms)."]
    p50_ms: Annotated[float | None, "Median latency (ms)."]
    p99_ms: Annotated[float | None, "99th percentile of the latency (ms)."]
    inferences_per_s: Annotated[float | None, "Throughput (samples/s)."]
    checked: Annotated[int | None, "Answers that were compared with golden ones."]
    max_abs_error: Annotated[float | None, "Largest absolute error of an output."]
    top1_agreement: Annotated[float | None, "Share of golden samples with the same first choice."]
    verdict: Annotated[str | None, "VALID, or INVALID with the constraints that do not hold."]
    failure: Annotated[str | None, "What failed. Null: nothing."]


def not_reached(
    workload: str, parameters: int | None, gflops: float | None, precision: str = "fp32", batch_size: int = 1
) -> SuiteRow:
    """A row of which nothing is known yet but the workload and how it is run."""
    known = {"workload": workload, "precision": precision, "batch_size": batch_size, "export_up_to_date": False}
    nothing = dict.fromkeys(SuiteRow.__annotations__)
    return cast(SuiteRow, {**nothing, **known, "parameters": parameters, "gflops": gflops})


class SuiteDocument(CampaignHeader):
    """A suite of workloads on one engine."""

    kind: Annotated[Literal["suite"], KIND]
    suite: Annotated[str, "Name of the suite."]
    engine: Annotated[str, "Engine."]
    concurrency: Annotated[int, "Requests in flight."]
    duration_s: Annotated[float, "Measured seconds, at the least."]
    warmup_s: Annotated[float, "Seconds before the measured interval."]
    published: Annotated[bool, "Whether each workload ran at AI Matrix's batches and precisions."]
    rows: Annotated[list[SuiteRow], "One row for each workload."]


def suite_case(workload: str, precision: str, batch: int) -> str:
    """Return the label of a suite's case: "resnet50", "resnet50 int8 -b 16"."""
    return workload + ("" if precision == "fp32" else f" {precision}") + (f" -b {batch}" if batch > 1 else "")
