"""Comparisons: of engines in interleaved rounds, `comparison.json`; of saved results, two of them or all in order."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from servemark.results.schema.details import ObjectiveStatus, OutputAgreement, QualityOutcome
from servemark.results.schema.header import KIND, CampaignHeader, Header
from servemark.results.schema.run import Scenario
from servemark.results.schema.search import CandidateSettings, Lacked, MaxRateSearch, TuningOutcome
from servemark.stats.ratios import RatioFigures


class LeftOut(TypedDict):
    """An engine that takes no part."""

    label: Annotated[str, "Engine, with its precision where that is not fp32."]
    reason: Annotated[str, "Why it takes no part."]


class TunedFirst(TypedDict):
    """Outcome of tuning an engine before the comparison."""

    outcome: Annotated[TuningOutcome, "How the tuning ended."]
    reason: Annotated[str, "The same in words."]
    lacked: Annotated[Lacked | None, "What an undecided tuning lacked. `machine`: other work took it."]
    ratio: Annotated[RatioFigures | None, "The tuned configuration's highest rate to the present one's."]
    remedy: Annotated[str | None, "What would decide an undecided tuning."]
    taken: Annotated[str, "The configuration that takes part, in words."]
    directory: Annotated[str, "Directory of the tuning."]


class MergedLatency(TypedDict):
    """Percentiles of all rounds' requests together (ms)."""

    count: Annotated[int, "Requests."]
    p50: Annotated[float | None, "Median."]
    p90: Annotated[float | None, "90th percentile."]
    p99: Annotated[float | None, "99th percentile."]
    ci95: Annotated[dict[str, list[float] | None], "Percentile -> 95 % interval over the rounds. Null: below 5 rounds."]


class MeanRate(TypedDict):
    """Throughput over the rounds."""

    mean: Annotated[float, "Mean (samples/s)."]
    ci95: Annotated[list[float] | None, "95 % interval of the mean. Null: below 5 rounds."]


class HighestRateFigures(TypedDict):
    """The highest rate of one engine: by a search, then in interleaved rounds."""

    rate: Annotated[float | None, "Geometric mean of the rounds, else what the search found (requests/s)."]
    rounds: Annotated[list[float], "Highest rate in each round (requests/s)."]
    rounds_reason: NotRequired[Annotated[str | None, "Why there are no more rounds. Null: they are whole."]]
    directory: Annotated[str | None, "Directory of the search."]
    search: Annotated[MaxRateSearch | None, "The search. Null: none could be made."]


class RowEnergy(TypedDict):
    """Energy over the rounds."""

    joules_per_inference: Annotated[float | None, "Energy of one sample (J)."]
    ci95: NotRequired[Annotated[list[float] | None, "Its 95 % interval over the rounds. Null: fewer than 5."]]
    boundary: NotRequired[Annotated[str, "What was metered."]]
    reason: NotRequired[Annotated[str, "Why it is not known."]]


class RowFootprint(TypedDict):
    """Resources of a server that was started anew for each turn."""

    startup_s: Annotated[float, "From the start of its process until it was ready, mean over the rounds (s)."]
    startup_s_ci95: Annotated[list[float] | None, "Its 95 % interval. Null: below 5 rounds."]
    cpu_s: Annotated[float | None, "CPU time of all its processes in the measured intervals (s)."]
    cpu_ms_per_inference: Annotated[float | None, "The same for one sample (ms)."]
    memory_bytes: Annotated[
        float | None,
        "Most memory of all its processes at the end of a turn. A page that several share counts once (PSS).",
    ]


class RowInFlight(TypedDict):
    """Requests in flight under an open loop: those in the server's queue, and those that it works on."""

    mean: Annotated[float, "Mean over the rounds: good answers per second times their mean latency (Little's law)."]
    ci95: Annotated[list[float] | None, "Its 95 % interval. Null: below 5 rounds."]
    most: Annotated[int, "Most at one time in any round."]


class ServedBy(TypedDict):
    """Server of a contender, where servers are compared."""

    server: Annotated[str, "Name of the product."]
    version: Annotated[str | None, "Its version. Null: not known."]
    requests: Annotated[str, "What its requests are: KServe v2, or an endpoint type."]
    batching: Annotated[str | None, "How it joins requests. Null: it does not."]
    guide: Annotated[str, "Address of the guide that it is set up by."]


class RowVerdict(TypedDict):
    """Verdict of an engine's rounds: all of them have to be valid to be quoted."""

    valid: Annotated[bool, "Whether every round counts."]
    valid_rounds: Annotated[int, "Rounds that count."]
    unsteady_rounds: Annotated[int, "Rounds whose windows scattered: they count."]
    disturbed_rounds: NotRequired[Annotated[int, "Rounds in which other work took more than 5 % of the cores."]]
    other_cpu_share: NotRequired[Annotated[float, "Largest share of the cores that other work took in a round."]]
    failed: Annotated[dict[str, int], "Constraint -> rounds that did not meet it."]
    remedy: Annotated[str | None, "What to do. Null where nothing failed."]
    objective_missed: Annotated[int | None, "Rounds that did not meet the objective. Null: there is none."]


class Variations(TypedDict):
    """Coefficients of variation over the rounds."""

    p50: Annotated[float | None, "Of the median latency."]
    inferences_per_s: Annotated[float | None, "Of the throughput."]
    reason: NotRequired[Annotated[str, "Why one of them is not known."]]


class RowRatios(TypedDict):
    """An engine to the baseline. Latencies below 1 are faster, rates above 1."""

    p50: Annotated[RatioFigures | None, "Median latency."]
    p99: Annotated[RatioFigures | None, "99th percentile of the latency."]
    inferences_per_s: Annotated[RatioFigures | None, "Throughput."]
    max_rate: Annotated[RatioFigures | None, "Highest rate."]
    ci95_reason: NotRequired[Annotated[str, "Why the ratios have no intervals."]]
    reason: NotRequired[Annotated[str, "Why there is none."]]
    of_invalid_runs: NotRequired[Annotated[bool, "Whether the ratios rest on rounds that are not valid."]]


class RowQuality(TypedDict):
    """Score of the answers by the labels of the data set."""

    metric: Annotated[str, "The metric, as the workload names it."]
    value: Annotated[float | None, "Its value. Null: these examples do not tell it."]
    ci95: Annotated[list[float] | None, "95 % interval, as that of a quality figure."]
    higher_is_better: Annotated[bool, "Which way is good."]
    examples: Annotated[int, "Examples that were scored."]
    data_sha256: Annotated[str, "Digest of these examples."]
    weights: Annotated[str, "`trained`, `random` or `unknown`."]
    target: NotRequired[Annotated[float | None, "The suite's target. Null: none is published."]]
    outcome: NotRequired[Annotated[QualityOutcome, "The value against the target; judged of trained weights alone."]]
    of_fp32: Annotated[
        float | None,
        "Share of fp32's quality that is kept, of WER that of 1 - WER; above 1 it is better. Null: it is fp32, or of "
        "other data.",
    ]
    against: Annotated[str | None, "The row that it is compared with."]


class ComparisonRow(TypedDict):
    """One engine over all rounds."""

    label: Annotated[str, "Engine, with its precision where that is not fp32."]
    engine: Annotated[str | None, "Engine that ran, as the server reports it."]
    device: Annotated[str | None, "Device that ran."]
    provider: Annotated[str | None, "What of the engine ran."]
    precision: Annotated[str | None, "Precision of the export."]
    rounds: Annotated[int, "Whole rounds."]
    latency_ms: Annotated[MergedLatency, "Latency (ms)."]
    inferences_per_s: Annotated[MeanRate, "Throughput (samples/s)."]
    max_rate: Annotated[HighestRateFigures | None, "Highest rate within the objective."]
    max_rate_reason: NotRequired[Annotated[str | None, "Why it is not known, or not from all rounds."]]
    energy: Annotated[RowEnergy, "Energy."]
    output_agreement: Annotated[OutputAgreement, "Agreement with eager PyTorch."]
    quality: NotRequired[Annotated[RowQuality | None, "With `--quality`. Null: nothing was scored."]]
    verdict: Annotated[RowVerdict, "Whether the rounds may be quoted."]
    variation: Annotated[Variations, "How far the rounds lie apart."]
    drift: Annotated[float | None, "Share by which the throughput rose or fell from round to round. Null: it did not."]
    ratio: Annotated[RowRatios, "This engine to the baseline. All null for the baseline itself."]
    configuration: Annotated[CandidateSettings | None, "Configuration of the model."]
    in_flight: NotRequired[
        Annotated[RowInFlight | None, "Requests in flight. Null: a closed loop, or a round without good answers."]
    ]
    footprint: NotRequired[Annotated[RowFootprint, "Resources of its server, where each turn has its own."]]


class UntilDecided(TypedDict):
    """Rounds that end once every engine is told apart from the baseline, or is equal to it (--until-decided)."""

    decided: Annotated[bool, "Whether that came about."]
    saved_s: Annotated[float, "Time of the rounds that were not needed (s)."]


class ComparisonTurn(TypedDict):
    """One run of one engine in one round."""

    round: Annotated[int, "Number of the round, from 1."]
    label: Annotated[str, "Engine."]
    directory: Annotated[str, "Directory with its whole result."]
    seed: Annotated[int, "Seed of schedule and inputs."]
    partial: Annotated[bool, "Whether it was cut short. Then it takes no part in the figures."]
    valid: Annotated[bool, "Whether it counts."]
    failed: Annotated[list[str], "Constraints that keep it from counting."]
    objective: Annotated[ObjectiveStatus | None, "Whether its objectives were met. Null: there is none."]
    unsteady: Annotated[bool, "Whether its windows scattered: they lie more than 10 % apart and do not drift."]
    disturbed: NotRequired[Annotated[bool, "Whether other work took more than 5 % of the cores."]]
    p50_ms: Annotated[float | None, "Median latency (ms)."]
    inferences_per_s: Annotated[float, "Throughput (samples/s)."]
    startup_s: NotRequired[Annotated[float, "Start-up time of the turn's own server (s)."]]
    memory_bytes: NotRequired[Annotated[int | None, "Memory of that server at the end of the turn (PSS)."]]


Reading = Literal["worse", "better", "not worse", "undecided", "not known"]
Outcome = Literal["worse", "not worse", "undecided"]


class Difference(TypedDict):
    """One figure of A and B."""

    figure: Annotated[str, "Name of the figure."]
    a: Annotated[float | None, "Value of A."]
    b: Annotated[float | None, "Value of B."]
    ratio: Annotated[RatioFigures | None, "B / A. Its interval is one of `confidence`."]
    reading: Annotated[Reading, "What the interval says of B. `not worse`: it leaves out a loss of the threshold."]
    judged: Annotated[bool, "Whether it decides about the outcome."]
    reason: NotRequired[Annotated[str | None, "Why it is undecided, or not known."]]
    regression: Annotated[bool, "Whether it is judged, and B is worse beyond chance and the threshold."]
    minimum_detectable_change: Annotated[
        float | None, "Smallest loss that such runs find in 80 of 100 cases (share). Null: no interval."
    ]
    runs_needed: Annotated[int | None, "Undecided: runs on each side that would do. Null: decided, or over 1000."]


class Subject(TypedDict):
    """Runs of one workload on one engine under one load, of both sides."""

    a: Annotated[str, "What A measured."]
    b: Annotated[str, "What B measured."]
    runs: Annotated[list[int], "Runs of A and of B."]
    differences: Annotated[list[Difference], "Figure by figure."]


class DifferingKey(TypedDict):
    """One key of configuration or environment that differs."""

    key: Annotated[str, "Path of the key."]
    a: Annotated[Any, "Value of A."]
    b: Annotated[Any, "Value of B."]


class SavedComparison(Header):
    """Saved results B compared with A."""

    kind: Annotated[Literal["saved_comparison"], KIND]
    a: Annotated[str, "Name of A."]
    b: Annotated[str, "Name of B."]
    threshold: Annotated[float, "Share below which no difference counts."]
    confidence: Annotated[float, "Confidence of each interval. All that are judged together have 0.95."]
    judged: Annotated[list[str], "Figures that decide, as --fail-on names them."]
    outcome: Annotated[Outcome, "Whether B is worse in any of them."]
    undecided: Annotated[list[str], "Why it could not be decided."]
    subjects: Annotated[list[Subject], "What both sides measured."]
    warnings: Annotated[list[str], "What a reader must know."]
    differing: Annotated[list[DifferingKey], "Keys of configuration and environment that differ."]
    regressions: Annotated[list[str], "Figures of B that are worse."]


class RepeatedRound(TypedDict):
    """A round that was made again. Its former runs are in no figure; their directories are kept."""

    round: Annotated[int, "Number of the round."]
    label: Annotated[str, "The engine whose run was INVALID."]
    failed: Annotated[list[str], "What that run failed."]


class ComparisonHeader(Header):
    """Part of a comparison that is known before the first round."""

    kind: Annotated[Literal["comparison"], KIND]
    workload: Annotated[str, "Name of the workload."]
    seed: Annotated[int, "Seed of the first round."]
    batch_size: Annotated[int, "Samples in a request."]
    duration_s: Annotated[float, "Measured seconds of a round."]
    slo: Annotated[str | None, "Objectives, like `p99:50,errors:0.001`."]
    rounds_requested: Annotated[int, "Rounds that were asked for."]
    until_decided: NotRequired[
        Annotated[UntilDecided, "With --until-decided: intervals and tests of ratios hold at each look. Else absent."]
    ]
    repeated: NotRequired[Annotated[list[RepeatedRound], "Rounds that were made again, once each."]]
    left_out: Annotated[list[LeftOut], "Engines that take no part."]
    tuned: Annotated[dict[str, TunedFirst], "Engine -> what tuning it first came to."]
    configurations: Annotated[dict[str, CandidateSettings], "Engine -> configuration of its model."]
    servers: NotRequired[Annotated[dict[str, ServedBy], "Label -> its server, where servers are compared."]]
    gate: NotRequired[Annotated[SavedComparison, "--fail-on: the second side against the first, by the rounds."]]


class ComparisonDocument(ComparisonHeader, CampaignHeader):
    """Engines side by side."""

    baseline: Annotated[str, "The engine that the others are compared with."]
    load: Annotated[
        dict[str, Any] | None, "The load of a round, as its `request` asks for it. Null: no round was made."
    ]
    scenario: Annotated[Scenario | None, "The load of a round as it was made. Null: no round was made."]
    scheduled_rate: NotRequired[
        Annotated[float | None, "Mean requests on the schedule of a round, per second. Null: a closed loop."]
    ]
    rounds_done: Annotated[int, "Whole rounds of every engine."]
    rows: Annotated[list[ComparisonRow], "One row for each engine."]
    turns: Annotated[list[ComparisonTurn], "Every run in the order in which it was made."]


class HistoryResult(TypedDict):
    """One result of a series."""

    folder: Annotated[str, "Its folder, from the one that was searched."]
    created: Annotated[str, "When it was begun (UTC, ISO 8601)."]
    commit: Annotated[str | None, "Commit of the checkout."]
    dirty: Annotated[bool, "Whether tracked files differed from the commit."]
    value: Annotated[float, "The metric."]
    valid: Annotated[bool, "Whether it is VALID and whole."]
    used: Annotated[bool, "Whether changes were sought in it."]


class HistoryChange(TypedDict):
    """A change of the level."""

    before: Annotated[str, "Folder of the last result before it."]
    after: Annotated[str, "Folder of the first result after it."]
    seen: Annotated[str, "Folder of the result with which it was seen."]
    commits: Annotated[list[str | None], "Commits of these two."]
    ratio: Annotated[float, "Geometric mean of the results until the next change, to that since the last one."]
    evidence: Annotated[float, "Largest evidence for it since it was seen; at least `run_length`."]
    reading: Annotated[Literal["worse", "better", "small"], "`small`: less than the threshold."]


Trend = Literal["worse", "not shown", "undecided"]


class HistorySeries(TypedDict):
    """Results that measured the same on the same machine, oldest first."""

    subject: Annotated[str, "What was measured: workload, engine, precision, device, protocol, load, batch."]
    machine: Annotated[str, "Where."]
    results: Annotated[list[HistoryResult], "The results."]
    evidence: Annotated[
        float | None,
        "Evidence of a further change at the last result; at `run_length` it is one. Null: too few results.",
    ]
    detectable_change: Annotated[
        float | None,
        "Smallest change for the worse, as a share, that would have been seen if the latest results since the last "
        "change had it: half of them, 10 at most. Null: they are too few, or too noisy, to show any.",
    ]
    missing_results: Annotated[
        int | None,
        "Number of results that are missing until a change of some size would be seen, if they are like these. "
        "0: none. Null: they are too noisy.",
    ]
    changes: Annotated[list[HistoryChange], "The changes, in order."]
    outcome: Annotated[
        Trend,
        "`worse`: the latest change is for the worse, or the last level is worse than the best before it, beyond "
        "chance among all series. `not shown`: neither is shown, which does not prove that there is none.",
    ]
    reason: Annotated[str, "The same in words."]


class History(Header):
    """A figure over all saved results."""

    kind: Annotated[Literal["history"], KIND]
    folder: Annotated[str, "The folder that was searched."]
    metric: Annotated[str, "The figure."]
    unit: Annotated[str, "Its unit."]
    higher_is_worse: Annotated[bool, "Whether a higher value is worse."]
    threshold: Annotated[float, "Share below which no change counts."]
    run_length: Annotated[int, "Least average number of results of pure noise until a change is seen by mistake."]
    outcome: Annotated[Trend, "Worse where one series is, else undecided where one is."]
    series: Annotated[list[HistorySeries], "The series, those that are worse first."]
    missing: Annotated[list[str], "Reasons why results have no such figure, and how many."]
    unreadable: Annotated[list[str], "Files that could not be read, and why."]


def change(found: HistoryChange) -> str:
    """Return how far a figure's level moved, and between which commits."""
    first, second = (commit[:12] if commit else "an unknown commit" for commit in found["commits"])
    same = found["commits"][0] == found["commits"][1]
    place = f"at {first}: the commit is the same, its surroundings are not" if same else f"between {first} and {second}"
    moved = f"{found['ratio'] - 1:.1%} higher" if found["ratio"] > 1 else f"{1 - found['ratio']:.1%} lower"
    return f"{found['reading']}: {moved} {place}"
