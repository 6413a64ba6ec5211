"""Verdict of a run: constraints, objectives, and what limited it."""

from typing import Annotated, Literal, NotRequired, TypedDict


class Constraint(TypedDict):
    """One condition of the verdict."""

    name: Annotated[str, "Name. In a mix the workload's name stands before it."]
    ok: Annotated[bool, "Whether it holds."]
    value: Annotated[float | None, "What was seen. Null where the condition has no figure."]
    limit: Annotated[float | None, "What it is compared with."]
    unit: Annotated[str, "Unit of value and limit."]
    remedy: Annotated[str, "What to do where it does not hold."]


ObjectiveStatus = Literal["met", "missed", "undecided"]


class Shown(TypedDict):
    """Confidence in an objective."""

    confidence: Annotated[float, "Confidence."]
    requests: Annotated[int, "Requests that were judged."]
    over: Annotated[int, "Requests over the limit. A failed one is."]
    holds: Annotated[bool | None, "True if the objective is kept with this confidence. Null: too little was measured."]
    holds_reason: NotRequired[Annotated[str, "Reason why that is not known."]]
    remedy: NotRequired[Annotated[str, "What to do for it to be known."]]


class JudgedObjective(TypedDict):
    """One objective, and whether the run met it."""

    objective: Annotated[str, "As `--slo` writes it. In a mix the workload's name stands before it."]
    figure: Annotated[
        str, "Tag of the figure; `latency` or `service_time` of a percentile; or `recovery`, `cold-start`."
    ]
    percentile: Annotated[float | None, "Percentile of a latency or service time."]
    status: Annotated[ObjectiveStatus, "`undecided`: too few requests to tell."]
    value: Annotated[float | None, "What was seen."]
    limit: Annotated[float, "Limit: the least of what is better the more there is, the most of all else."]
    unit: Annotated[str, "Unit of value and limit."]
    remedy: Annotated[str, "What to do where it is not met."]
    shown: Annotated[Shown | None, "A percentile: whether the run shows it with confidence."]


class VerdictOfRun(TypedDict):
    """Verdict of a run: its validity, and whether it met its objectives."""

    valid: Annotated[bool, "Whether every constraint holds. A missed objective is a result like any other."]
    objective: Annotated[
        ObjectiveStatus | None, "Of all objectives: missed where one is, met where all are. Null: there is none."
    ]
    exit_code: Annotated[int, "0 valid and met, 2 invalid or undecided, 4 valid and missed."]
    constraints: Annotated[list[Constraint], "The constraints in order."]
    objectives: Annotated[list[JudgedObjective], "The objectives in order."]
    skipped: Annotated[dict[str, str], "Constraints that do not apply: name -> reason."]


class LimitedBy(TypedDict):
    """Bottleneck of the run."""

    by: Annotated[Literal["server", "generator", "network"] | None, "What limited it. Null: nothing, or not known."]
    evidence: Annotated[str, "From which figures this follows."]
