"""Score of answers to labelled examples: of a quality run, of a load run, of MLPerf's accuracy mode."""

from typing import Annotated, Literal, NotRequired, TypedDict

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
    wrong: Annotated[int, "Examples that a failed request, or an answer that is not a number, made wrong."]
    left_out: Annotated[int, "Failed examples of a metric that has no worst value; they are not in the figures."]
    not_numbers: NotRequired[
        Annotated[
            int, "Examples whose answer held NaN or told an infinite figure; `wrong` or `left_out` counts them too."
        ]
    ]
    data: Annotated[QualityData, "The labelled data set."]
