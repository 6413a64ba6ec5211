"""The document of a suite's characterisation, `result.json` of `servemark characterise`."""

from typing import Annotated, Literal, TypedDict

from servemark.results.schema.header import KIND, CampaignHeader
from servemark.results.schema.kernels import Ceiling
from servemark.results.schema.profile import EngineProfile


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
