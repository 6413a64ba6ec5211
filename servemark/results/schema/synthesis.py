"""The document of a synthetic network, `result.json` of `servemark synthesise`."""

from typing import Annotated, Literal, TypedDict

from servemark.results.schema.header import KIND, Header


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
