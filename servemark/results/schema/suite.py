"""Documents of a suite: its table, `suite.json`; its characterisation; a network made of some of its workloads."""

from typing import Annotated, Literal, TypedDict, cast

from servemark.results.schema.header import KIND, CampaignHeader, Header
from servemark.results.schema.kernels import Ceiling
from servemark.results.schema.profile import EngineProfile


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


class TimedBatch(TypedDict):
    """Inferences of one batch size, one after the other, in a process of the engine."""

    batch_size: Annotated[int, "Samples in a request."]
    ms: Annotated[float | None, "Median time of an inference (ms)."]
    rounds: Annotated[int, "Number of inferences."]


class OnEngine(TypedDict):
    """A workload on one engine. Where it failed, `profile` says why."""

    engine: Annotated[str, "Engine, with its precision if that is a reduced one."]
    profile: Annotated[EngineProfile, "Profile of one sample, without layers and memory."]
    batches: Annotated[list[TimedBatch], "Times by batch size; the first is of one sample."]
    other_cpu_share: Annotated[float | None, "Share of the cores that other work took meanwhile."]
    spent_s: Annotated[float, "How long it took (s), the export left out."]


class Start(TypedDict):
    """One run on a server that was started for it. What was not reached is null; `failure` says why."""

    p50_ms: Annotated[float | None, "Median latency (ms)."]
    p99_ms: Annotated[float | None, "99th percentile of the latency (ms)."]
    inferences_per_s: Annotated[float | None, "Throughput (samples/s)."]
    joules_per_inference: Annotated[float | None, "Energy of one sample (J)."]
    spent_s: Annotated[float, "How long it took (s), with the server's start."]
    failure: Annotated[str | None, "What failed. Null: nothing."]


class CharacterisedWorkload(TypedDict):
    """One workload of the suite."""

    workload: Annotated[str, "Name of the workload."]
    suites: Annotated[list[str], "Suites that it belongs to."]
    parameters: Annotated[int | None, "Parameters of the model. Null: not known."]
    flops: Annotated[int | None, "Operations of one mean sample. Null: not known."]
    export_s: Annotated[float | None, "Time of its export for the first engine (s). Null: there is none."]
    engines: Annotated[list[OnEngine], "The workload on each engine."]
    starts: Annotated[list[Start], "Runs on the first engine, each on a fresh server."]


class Placed(TypedDict):
    """A workload among the others."""

    workload: Annotated[str, "Name of the workload."]
    cluster: Annotated[int, "Number of its hierarchical cluster, from 1."]
    stands_in: Annotated[str, "The chosen workload that is nearest: itself, if it is chosen."]
    pca: Annotated[list[float], "Its place by the first two principal components."]
    tsne: Annotated[list[float], "Its place by t-SNE with the first seed."]


class Analysis(TypedDict):
    """The workloads by their features on the first engine."""

    features: Annotated[list[str], "The features."]
    left_out: Annotated[list[str], "Features and workloads that are not part of it, with the reason."]
    placed: Annotated[list[Placed], "The workloads."]
    chosen: Annotated[list[str], "The few that stand for all: medoids."]
    pca_share: Annotated[float, "Share of the variance that the first two principal components have."]
    silhouettes: Annotated[
        dict[str, float], "Number of hierarchical clusters -> mean silhouette; above 0.5 they are well apart."
    ]
    seeds: Annotated[int, "Seeds that t-SNE was run with."]
    tsne_agreement: Annotated[
        list[float], "Adjusted Rand index, for each seed, of clusters in t-SNE's plane and in the features."
    ]


class Claim(TypedDict):
    """A subset, and how well it predicts the ratios of the workloads outside it."""

    subset: Annotated[str, "Origin of the subset."]
    members: Annotated[list[str], "Its workloads. Empty: many subsets, of which this is the median."]
    judged: Annotated[
        int | None, "Workloads outside whose ratios are known, and known of the member that is nearest to them."
    ]
    factor: Annotated[float, "Typical factor between predicted and measured ratio; 1 is perfect."]
    interval: Annotated[
        list[float] | None, "95 % interval over the workloads outside; of random subsets, over the subsets."
    ]
    mean_factor: Annotated[float, "The same if the subset's mean ratio is the prediction for every workload."]
    better_than: Annotated[float | None, "Share of random subsets of this size that predict worse."]


class Prediction(TypedDict):
    """The test whether a few workloads tell what the others would do on other engines and batch sizes."""

    contexts: Annotated[list[str], "Engines and batch sizes whose ratio to the first engine at batch 1 is predicted."]
    random_subsets: Annotated[int, "Number of random subsets."]
    unchanged_factor: Annotated[float, "Factor over all workloads if each ratio were 1."]
    claims: Annotated[list[Claim], "The subsets."]


class Characterisation(CampaignHeader):
    """A suite characterised, and the few of its workloads that stand for all."""

    kind: Annotated[Literal["characterisation"], KIND]
    suite: Annotated[str, "Name of the suite."]
    device: Annotated[str, "Device that ran: cpu or cuda:N."]
    engines: Annotated[list[str], "Engines, with the precision of reduced ones. Ratios are to the first."]
    batches: Annotated[list[int], "Batch sizes."]
    duration_s: Annotated[float, "Seconds of each measurement, at the least."]
    starts: Annotated[int, "Fresh server starts of each workload that were asked for."]
    size: Annotated[int, "Number of workloads that were to stand for all."]
    seeds: Annotated[int, "Seeds of t-SNE that were asked for."]
    ceiling: Annotated[Ceiling | None, "Ceilings of the device. Null: not asked for, or not to be measured."]
    rows: Annotated[list[CharacterisedWorkload], "The workloads."]
    analysis: Annotated[Analysis | None, "Clusters and the few that stand for all."]
    prediction: Annotated[Prediction | None, "Their claim, tested."]


class Distances(TypedDict):
    """A feature of one kind of layer, and how far the network's distribution of it is from the given workloads'."""

    feature: Annotated[
        str, "A size like kernel, stride, inputs or rows, or calls, flops, bytes: all but the first two as log2."
    ]
    wasserstein: Annotated[float, "Wasserstein distance, in standard deviations of the given workloads."]
    kolmogorov_smirnov: Annotated[float, "Largest distance of the distribution functions."]


class Total(TypedDict):
    """A total of the network beside the mean of the given workloads'."""

    name: Annotated[str, "flops, parameters or bytes."]
    ours: Annotated[float, "That of the network."]
    given: Annotated[float, "Mean of the given workloads."]


class KindMatch(TypedDict):
    """The layers of one kind beside those of the given workloads."""

    kind: Annotated[str, "convolution, fully connected, recurrent, attention, embedding or layer norm."]
    layers: Annotated[int, "Number of the network's."]
    given_layers: Annotated[float, "Mean number of the given workloads'."]
    flops_share: Annotated[float, "Mean share of the given workloads' operations, of all those in layers."]
    distances: Annotated[list[Distances], "By feature; empty where the network has no such layer."]
    totals: Annotated[list[Total], "Those that the given workloads have."]


class Candidate(TypedDict):
    """A network that is held against the given workloads."""

    name: Annotated[str, "The network's name."]
    kinds: Annotated[list[KindMatch], "By kind of layer that the given workloads have."]


class TimedContext(TypedDict):
    """One engine at one batch size."""

    engine: Annotated[str, "The engine, with a reduced precision."]
    batch_size: Annotated[int, "Samples in a request."]
    predicted_ms: Annotated[float | None, "Mean of the given workloads. Null: one of them has no time here."]
    measured_ms: Annotated[float | None, "The network's own time (ms)."]


class CategoryShare(TypedDict):
    """A category of operators on one engine."""

    engine: Annotated[str, "The engine."]
    category: Annotated[str, "Category of the operators."]
    ours: Annotated[float, "Share of the network's time."]
    given: Annotated[float, "Mean share of the given workloads' time."]


class HeldOut(TypedDict):
    """A workload that the network was not made of, over the contexts."""

    workload: Annotated[str, "Its name."]
    rank_correlation: Annotated[float | None, "Kendall's tau of its times and the network's. Null: too few contexts."]


class Synthesis(Header):
    """A synthetic network and its match."""

    kind: Annotated[Literal["synthesis"], KIND]
    name: Annotated[str, "Name of the network, which is a workload."]
    file: Annotated[str, "Its workload file."]
    given: Annotated[list[str], "Workloads that it was made of."]
    left_out: Annotated[dict[str, float], "Workload -> share of its operations that lie in no such layer."]
    seed: Annotated[int, "Seed of the search."]
    search_s: Annotated[float, "How long the search took (s)."]
    candidates: Annotated[list[Candidate], "The network; beside one that is mostly of convolutions AI Matrix's own."]
    contexts: Annotated[list[TimedContext], "Times; empty without --engines."]
    shares: Annotated[list[CategoryShare], "Time by category at batch 1; empty without --engines."]
    held_out: Annotated[list[HeldOut], "Workloads that it was not made of."]
