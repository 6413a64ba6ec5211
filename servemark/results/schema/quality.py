"""The result of `servemark quality`: how right the answers to a labelled data set are."""

from typing import Annotated, Literal, NotRequired, TypedDict

from servemark.results.schema.header import Header
from servemark.results.schema.mlperf import MlperfErrors
from servemark.results.schema.run import Config


class QualityFigure(TypedDict):
    """One figure of a metric."""

    name: Annotated[str, "Name of the figure."]
    value: Annotated[float | None, "The figure. Null: these examples do not tell it."]
    ci95: Annotated[list[float] | None, "95 % interval, by bootstrap over the examples. Null for fewer than 5."]


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
    """What was found, against what is published."""

    metric: Annotated[str, "The metric, as the workload names it."]
    higher_is_better: Annotated[bool, "Which way is good."]
    figures: Annotated[list[QualityFigure], "The metric, and what is told beside it."]
    target: Annotated[float | None, "The suite's target. Null: none is published."]
    protocol: Annotated[str, "What the target is of."]
    outcome: Annotated[
        Literal["met", "missed", "not judged"], "The value against the target; judged of trained weights alone."
    ]
    reason: NotRequired[Annotated[str, "Why it is not judged."]]
    weights: Annotated[str, "`trained`, `random`, or `unknown` of a server whose model is not in the repository."]
    wrong: Annotated[int, "Examples that a failed request made wrong."]
    left_out: Annotated[int, "Failed examples of a metric that has no worst value; they are not in the figures."]
    data: Annotated[QualityData, "The labelled data set."]


class QualityConfig(Config):
    """Every option as it was resolved."""

    samples: Annotated[int | None, "Size of the subset that was asked for. Null: all examples."]


class QualityResult(Header):
    """The result of a quality run."""

    config: Annotated[QualityConfig, "Every option as it was resolved."]
    workload: Annotated[str, "Name of the workload."]
    engine: Annotated[str | None, "Engine that ran, as the server reports it."]
    device: Annotated[str | None, "Device that ran: cpu or cuda:N."]
    provider: Annotated[str | None, "What of the engine ran, like an execution provider."]
    precision: Annotated[str, "Precision that was asked for."]
    protocol: Annotated[str, "`http`, `grpc` or `in-process`."]
    artifact_sha256: Annotated[str | None, "Digest of the model file. Null: it is not in the repository."]
    quality: Annotated[QualityScore | None, "What was found. Null: no example was scored."]
    errors: Annotated[MlperfErrors, "Failed requests."]
    seconds: Annotated[float, "How long the requests of this run took (s)."]
    partial: Annotated[bool, "true: the run was cut short; the same command continues it."]
