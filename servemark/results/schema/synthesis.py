"""The document of a synthetic network, `result.json` of `servemark synthesise`."""

from typing import Annotated, Literal, TypedDict

from servemark.results.schema.header import KIND, Header


class Distances(TypedDict):
    """A feature of the convolutions, and how far the network's distribution of it is from the given workloads'."""

    feature: Annotated[str, "kernel, stride, inputs, outputs, side, flops or bytes; the last five as log2."]
    wasserstein: Annotated[float, "Wasserstein distance, in standard deviations of the given workloads."]
    kolmogorov_smirnov: Annotated[float, "Largest distance of the distribution functions."]


class Total(TypedDict):
    """A total of the network beside the mean of the given workloads'."""

    name: Annotated[str, "What is counted."]
    ours: Annotated[float, "That of the network."]
    given: Annotated[float, "Mean of the given workloads."]


class Candidate(TypedDict):
    """A network that is held against the given workloads."""

    name: Annotated[str, "The network's name."]
    layers: Annotated[int, "Its convolutions."]
    distances: Annotated[list[Distances], "By feature."]
    totals: Annotated[list[Total], "Convolutions, their operations and parameters, weights of fully connected layers."]


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
    left_out: Annotated[dict[str, float], "Workload -> share of its operations in layers that a chain does not have."]
    seed: Annotated[int, "Seed of the search."]
    search_s: Annotated[float, "How long the search took (s)."]
    candidates: Annotated[list[Candidate], "The network, and AI Matrix's own beside it."]
    contexts: Annotated[list[TimedContext], "Times; empty without --engines."]
    shares: Annotated[list[CategoryShare], "Time by category at batch 1; empty without --engines."]
    held_out: Annotated[list[HeldOut], "Workloads that it was not made of."]
